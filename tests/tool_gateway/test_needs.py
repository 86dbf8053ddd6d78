"""What calls need: what is learned of their like, what is held, what stays the rule's."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from governor.amounts import NOTHING, Amounts, Unit
from governor.call import CallRecord, CallStatus, ToolCall
from governor.expectation import NOTHING_KNOWN, ExpectationTerms, Known, Work
from governor.ids import SessionId, ToolName
from governor.intents import Intent, Size
from governor.policy import Policy, ToolRule
from governor.target import CallKind
from governor.usage import Usage
from tests.tool_gateway.makers import ENTRY, LIMITS, RULE, FakeClock, a_call
from tests.tool_gateway.test_shell import FakeRunner
from tool_gateway.errors import LedgerUnavailableError
from tool_gateway.job import Job
from tool_gateway.needs import Needing, repository_of
from tool_gateway.ports import Backend
from tool_gateway.refusals import Refusals
from tool_gateway.shell import LOCAL, SHELL_RUN, Shell

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
SHELL_RULE = replace(RULE, limits=replace(LIMITS, memory_bytes=512 * MIB, cpu_millis=1_000))
TERMS = ExpectationTerms(samples_min=5)


@dataclass
class FakeWorks:
    """What several processes keep together, told when to fail."""

    known: dict[Work, Known] = field(default_factory=dict)
    is_down: bool = False

    async def all(self) -> Mapping[Work, Known]:
        return dict(self.known)

    async def add(self, learned: Mapping[Work, Known], *, now_ms: int) -> None:
        if self.is_down:
            raise LedgerUnavailableError
        for work, one in learned.items():
            self.known[work] = self.known.get(work, NOTHING_KNOWN).plus(one)


def a_needing(
    works: FakeWorks | None = None,
    terms: ExpectationTerms = TERMS,
    refusals: Refusals | None = None,
) -> Needing:
    return Needing(
        store=works or FakeWorks(),
        clock=FakeClock(),
        terms=lambda: terms,
        workdir="/nowhere",
        refusals=refusals or Refusals(),
    )


def shell_call(line: str = "pytest", **more: object) -> ToolCall:
    return replace(a_call("call_1"), tool=SHELL_RUN, arguments={"command": line, **more})


def used(needing: Needing, call: ToolCall, *, times: int = 1, **figures: int) -> None:
    """Have calls end that used so much."""
    rule = SHELL_RULE
    backend: Backend = Shell(runner=FakeRunner(), environment={})
    job = Job(
        call=call,
        session_name="one",
        entry=ENTRY,
        rule=rule,
        backend=backend,
        isolated=None,
        started_at_ms=0,
        policy=Policy(version="1", rules=(), fallback=rule),
        needs=needing.of(call, rule, LOCAL),
    )
    peak = figures.pop("peak_mib", 10) * MIB
    measured = Amounts({Unit(name): figure for name, figure in figures.items()})
    record = CallRecord(
        call_id=call.call_id,
        kind=CallKind.TOOL,
        name=call.tool,
        chain=call.chain,
        turn=None,
        status=CallStatus.OK,
        started_at_ms=0,
        ended_at_ms=1,
        arguments="",
        backend=LOCAL,
        rule="",
        policy_version="1",
        estimate=NOTHING,
        usage=Usage(measured=measured, memory_peak_bytes=peak),
    )
    for _ in range(times):
        needing.learn(job, record)


def rule_of(needing: Needing, call: ToolCall, rule: ToolRule = SHELL_RULE) -> ToolRule:
    return needing.of(call, rule, LOCAL).rule


@pytest.mark.requirement("estimates.cold-start-is-said")
async def test_until_enough_calls_were_seen_the_rule_stands_and_that_is_said() -> None:
    needing = a_needing()
    used(needing, shell_call(), times=4, wall_ms=100)

    needs = needing.of(shell_call(), SHELL_RULE, LOCAL)

    assert needs.rule == SHELL_RULE
    assert needs.shown is not None
    assert needs.shown["basis"] == "rule"
    assert "4 of 5" in str(needs.shown["why"])


async def test_what_is_learned_is_held_and_the_kernels_limits_stay_the_rules() -> None:
    needing = a_needing()
    used(needing, shell_call(), times=5, wall_ms=100, cpu_ms=50, memory_mib_s=8, peak_mib=64)

    rule = rule_of(needing, shell_call())

    assert 125 <= (rule.estimate_wall_ms or 0) <= 130
    assert 62 <= (rule.estimate_cpu_ms or 0) <= 66
    assert rule.estimates.of(Unit.MEMORY_MIB_S) == 10
    assert 80 * MIB <= (rule.limits.memory_expected_bytes or 0) <= 84 * MIB
    assert replace(rule.limits, memory_expected_bytes=None) == SHELL_RULE.limits


async def test_an_expectation_above_the_limit_holds_the_limit() -> None:
    needing = a_needing()
    used(needing, shell_call(), times=5, wall_ms=5_000, memory_mib_s=2_560, peak_mib=512)

    rule = rule_of(needing, shell_call())

    assert rule.estimate_wall_ms == LIMITS.wall_ms
    assert rule.estimates.of(Unit.MEMORY_MIB_S) == 512 * LIMITS.wall_ms // 1000
    assert rule.limits.memory_expected_bytes is None


async def test_an_operators_estimate_outranks_what_is_learned() -> None:
    needing = a_needing()
    used(needing, shell_call(), times=5, wall_ms=100, memory_mib_s=8)
    said = replace(SHELL_RULE, estimate_wall_ms=7, estimates=Amounts({Unit.MEMORY_MIB_S: 3}))

    rule = rule_of(needing, shell_call(), said)

    assert rule.estimate_wall_ms == 7
    assert rule.estimates.of(Unit.MEMORY_MIB_S) == 3


async def test_budgets_hold_the_limits_where_the_operator_wants_that() -> None:
    needing = a_needing(terms=replace(TERMS, holds=False))
    used(needing, shell_call(), times=5, wall_ms=100, peak_mib=64)

    rule = rule_of(needing, shell_call())

    assert rule.estimate_wall_ms is None
    assert rule.limits.memory_expected_bytes is not None


async def test_other_kinds_of_commands_are_learned_apart() -> None:
    needing = a_needing()
    used(needing, shell_call("pytest"), times=5, wall_ms=4_000)

    assert rule_of(needing, shell_call("git status")) == SHELL_RULE
    assert rule_of(needing, shell_call("python -m pytest -x")).estimate_wall_ms is not None


async def test_a_new_repository_begins_with_what_others_showed(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    needing = a_needing()
    used(needing, shell_call(), times=5, wall_ms=100)

    there = shell_call(cwd=str(tmp_path / "deep" / "er"))

    assert repository_of(str(tmp_path / "deep" / "er")) == str(tmp_path)
    assert repository_of("/nowhere/at/all") == "/nowhere/at/all"
    assert rule_of(needing, there).estimate_wall_ms is not None


async def test_a_declaration_outranks_what_is_learned() -> None:
    needing = a_needing()
    used(needing, shell_call(), times=5, wall_ms=100, peak_mib=64)
    call = replace(shell_call(), intent=Intent(memory_bytes=256 * MIB, duration_ms=3_000))

    needs = needing.of(call, SHELL_RULE, LOCAL)

    assert needs.rule.limits.memory_bytes == 256 * MIB
    assert needs.rule.limits.memory_expected_bytes == 256 * MIB
    assert needs.rule.estimate_wall_ms == 3_000
    assert needs.shown is not None
    assert needs.shown["basis"] == "declared"


async def test_a_declaration_holds_no_less_than_its_like_have_used() -> None:
    needing = a_needing()
    used(needing, shell_call(), times=5, wall_ms=4_000)
    call = replace(shell_call(), intent=Intent(duration_ms=1))

    rule = rule_of(needing, call)

    assert rule.estimate_wall_ms == rule_of(needing, shell_call()).estimate_wall_ms
    assert (rule.estimate_wall_ms or 0) >= 4_000


async def test_no_declaration_counts_where_budgets_hold_the_limits() -> None:
    needing = a_needing(terms=replace(TERMS, holds=False))
    call = replace(shell_call(), intent=Intent(duration_ms=1))

    assert rule_of(needing, call).estimate_wall_ms is None
    assert needing.of(call, SHELL_RULE, "files").rule == SHELL_RULE


@pytest.mark.requirement("estimates.learned-survive")
async def test_processes_learn_from_one_another() -> None:
    works = FakeWorks()
    one, other = a_needing(works), a_needing(works)
    used(one, shell_call(), times=3, wall_ms=100)
    used(other, shell_call(), times=3, wall_ms=100)

    for needing in (one, other, one):
        await needing.exchange()

    assert rule_of(one, shell_call()).estimate_wall_ms is not None
    assert rule_of(other, shell_call()).estimate_wall_ms is not None
    assert max(known.count for known in works.known.values()) == 6


@pytest.mark.requirement("estimates.learned-survive")
async def test_what_is_learned_while_the_store_is_away_is_kept_for_later() -> None:
    works = FakeWorks(is_down=True)
    needing = a_needing(works)
    used(needing, shell_call(), times=3, wall_ms=100)
    with pytest.raises(LedgerUnavailableError):
        await needing.exchange()
    used(needing, shell_call(), times=2, wall_ms=100)
    works.is_down = False

    await needing.exchange()
    await needing.exchange()

    assert max(known.count for known in works.known.values()) == 5
    assert rule_of(needing, shell_call()).estimate_wall_ms is not None


async def test_the_governors_own_tools_are_not_touched() -> None:
    free = replace(SHELL_RULE, is_free=True)

    assert a_needing().of(shell_call(), free, LOCAL).rule is free


async def test_of_a_tool_that_runs_elsewhere_only_the_duration_counts_and_that_is_said() -> None:
    call = replace(a_call("call_1"), intent=Intent(memory_bytes=MIB, duration_ms=40))

    needs = a_needing().of(call, SHELL_RULE, "files")

    assert needs.rule == replace(SHELL_RULE, estimate_wall_ms=40)
    assert needs.shown is not None
    assert "runs elsewhere" in str(needs.shown["why"])


@pytest.mark.parametrize("intent", [Intent(memory_bytes=128 * MIB), Intent(size=Size.HIGH)])
async def test_memory_that_was_refused_is_not_given_to_a_call_that_declares_it(
    intent: Intent,
) -> None:
    refusals = Refusals()
    refusals.note(shell_call(), 64 * MIB)

    needs = a_needing(refusals=refusals).of(replace(shell_call(), intent=intent), SHELL_RULE, LOCAL)

    assert needs.rule.limits.memory_bytes == 64 * MIB
    # Somebody may still be asked for more.
    assert needs.rule.limits.memory_ceiling_bytes == 512 * MIB
    assert needs.shown is not None
    assert needs.shown["clamped"] == ["memory_mib"]
    assert "refused in this session" in str(needs.shown["refused"])


async def test_a_refusal_holds_for_its_own_session_and_tool_until_somebody_gives_more() -> None:
    refusals = Refusals()
    refusals.note(shell_call(), 64 * MIB)
    another = replace(shell_call(), chain=replace(shell_call().chain, session=SessionId("ses_2")))

    found = [refusals.of(another), refusals.of(replace(shell_call(), tool=ToolName("python_run")))]
    refusals.forget(shell_call())

    assert [*found, refusals.of(shell_call())] == [None, None, None]
