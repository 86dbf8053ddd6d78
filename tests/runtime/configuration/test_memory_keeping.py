"""How long experiences are kept, as the file says it."""

from governor.experience.kinds import ExperienceKind
from governor.ids import TenantId
from memory_store.experiences.values import KeepRule
from runtime.configuration.memory import MemoryTable
from runtime.configuration.memory_keeping import MS_PER_DAY, keep_rules_of

NOW_MS = 100 * MS_PER_DAY


def test_experiences_go_by_tenant_kind_and_age() -> None:
    table = MemoryTable.model_validate(
        {
            "kept_days": {"tool_result": 7},
            "keep": [{"tenant": "acme", "days": 30}, {"kind": "case", "tenant": "acme", "days": 3}],
        }
    )

    rules = keep_rules_of(table.kept_days, table.keep, now_ms=NOW_MS)

    assert rules == (
        KeepRule(before_ms=93 * MS_PER_DAY, kind=ExperienceKind.TOOL_RESULT),
        KeepRule(before_ms=70 * MS_PER_DAY, tenant=TenantId("acme")),
        KeepRule(before_ms=97 * MS_PER_DAY, tenant=TenantId("acme"), kind=ExperienceKind.CASE),
    )


def test_without_a_word_experiences_are_kept_for_good() -> None:
    table = MemoryTable()

    assert keep_rules_of(table.kept_days, table.keep, now_ms=NOW_MS) == ()
