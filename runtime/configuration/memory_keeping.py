"""The keys of `[memory]` about how long experiences are kept, and the rules they stand for."""

from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import Field

from governor.experience.kinds import ExperienceKind
from governor.ids import TenantId
from memory_store.experiences.values import KeepRule
from runtime.configuration.table import Name, Table

_DAYS_MAX = 36_500
MS_PER_DAY = 24 * 60 * 60 * 1000
Days = Annotated[int, Field(strict=True, gt=0, le=_DAYS_MAX)]


class KeptDaysTable(Table):
    """For how many days experiences of a kind are kept; without a word, for good."""

    observation: Days | None = None
    tool_result: Days | None = None
    decision: Days | None = None
    lesson: Days | None = None
    case: Days | None = None
    fact: Days | None = None

    def by_kind(self) -> Iterator[tuple[ExperienceKind, int]]:
        """Yield the kinds that are not kept for good, with their days."""
        for kind in ExperienceKind:
            days = getattr(self, kind.value)
            if days is not None:
                yield kind, days


class KeepTable(Table):
    """For how many days the experiences of a tenant are kept; without one, of every tenant.

    Without a kind it is for all of them. Of several that fit, the shortest counts.
    """

    tenant: Name | None = None
    kind: ExperienceKind | None = None
    days: Days


def keep_rules_of(
    kept_days: KeptDaysTable, tables: Iterable[KeepTable], *, now_ms: int
) -> tuple[KeepRule, ...]:
    """Return what goes now: what was learned before is erased."""
    of_kinds = [
        KeepRule(before_ms=now_ms - days * MS_PER_DAY, kind=kind)
        for kind, days in kept_days.by_kind()
    ]
    of_tenants = [
        KeepRule(
            before_ms=now_ms - table.days * MS_PER_DAY,
            tenant=None if table.tenant is None else TenantId(table.tenant),
            kind=table.kind,
        )
        for table in tables
    ]
    return (*of_kinds, *of_tenants)
