from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Amounts, Unit
from governor.errors import InvalidPolicyError
from governor.estimate import (
    EXPECTABLE,
    context_tokens,
    energy_mj,
    estimate_tool_call,
    unexcused,
    with_expected,
)
from governor.ids import PrincipalId, TenantId, ToolName
from governor.limits import ExecutionLimits, Isolation
from governor.policy import Match, Policy, ToolRule
from governor.usage import OF_PROBES, OF_THE_MACHINE

LIMITS = ExecutionLimits(
    memory_bytes=None, pids=None, cpu_millis=None, cpu_ms=None, wall_ms=2_000, output_bytes=1_000
)
BLIND = dict.fromkeys(OF_THE_MACHINE, "elsewhere")
RULE = ToolRule(name="any", match=Match(), allow=True, limits=LIMITS, cost_microusd=3)


def test_the_limit_itself_is_held_where_the_rule_gives_no_estimate() -> None:
    estimate = estimate_tool_call(RULE, unmeasurable={})

    assert estimate.as_dict() == {
        "cost_microusd": 3,
        "tool_calls": 1,
        "wall_ms": 2_000,
        "cpu_ms": 2_000,
        "memory_mib_s": 0,
        "io_bytes": 0,
        "egress_bytes": 0,
        "context_tokens": 4_096,
        "probe_1": 0,
        "probe_2": 0,
        "probe_3": 0,
        "probe_4": 0,
    }


def test_a_limit_on_what_is_sent_is_held_where_somebody_counts_it() -> None:
    rule = replace(RULE, limits=replace(LIMITS, egress_bytes=700))

    assert estimate_tool_call(rule, unmeasurable={}).of(Unit.EGRESS_BYTES) == 700
    assert Unit.EGRESS_BYTES not in estimate_tool_call(rule, unmeasurable=BLIND)


def test_a_limit_on_a_probes_unit_is_held_unless_the_rule_estimates_less() -> None:
    limited = replace(LIMITS, probe_limits=(("opens", 9), ("probe_2", 700)))
    rule = replace(RULE, limits=limited)
    less = replace(rule, estimates=Amounts({Unit.PROBE_2: 5}))
    blind = {Unit.PROBE_2: "no probe"}

    held = estimate_tool_call(rule, unmeasurable={})

    assert [held.of(unit) for unit in OF_PROBES] == [0, 700, 0, 0]
    assert estimate_tool_call(less, unmeasurable={}).of(Unit.PROBE_2) == 5
    assert Unit.PROBE_2 not in estimate_tool_call(rule, unmeasurable=blind)


def test_the_rules_own_estimates_are_held_where_it_gives_them() -> None:
    rule = replace(RULE, estimate_wall_ms=100, estimate_cpu_ms=40)

    estimate = estimate_tool_call(rule, unmeasurable={})

    assert (estimate.of(Unit.WALL_MS), estimate.of(Unit.CPU_MS)) == (100, 40)


def test_a_processor_time_that_nobody_measures_is_held_only_if_the_rule_says_how_much() -> None:
    told = replace(RULE, estimate_cpu_ms=40)

    assert Unit.CPU_MS not in estimate_tool_call(RULE, unmeasurable=BLIND)
    assert estimate_tool_call(told, unmeasurable=BLIND).of(Unit.CPU_MS) == 40


def test_a_limit_on_processor_time_is_its_estimate() -> None:
    rule = replace(RULE, limits=replace(LIMITS, cpu_ms=300, cpu_millis=500))

    assert estimate_tool_call(rule, unmeasurable={}).of(Unit.CPU_MS) == 300


@given(wall_ms=st.integers(1, 10**7), cpu_millis=st.integers(1, 64_000))
def test_processor_time_at_a_rate_is_rounded_up(wall_ms: int, cpu_millis: int) -> None:
    rule = replace(RULE, limits=replace(LIMITS, wall_ms=wall_ms, cpu_millis=cpu_millis))

    held = estimate_tool_call(rule, unmeasurable={}).of(Unit.CPU_MS)

    assert (held - 1) * 1000 < wall_ms * cpu_millis <= held * 1000


def test_memory_over_time_is_held_at_the_limits_of_both_and_rounded_up() -> None:
    rule = replace(RULE, limits=replace(LIMITS, memory_bytes=64 * 2**20 + 1))

    assert estimate_tool_call(rule, unmeasurable={}).of(Unit.MEMORY_MIB_S) == 129


def test_energy_is_held_for_the_processor_time_that_is_held() -> None:
    estimate = estimate_tool_call(RULE, unmeasurable={}, milliwatts_per_core=7_001)

    assert estimate.of(Unit.ENERGY_MJ) == 14_002
    assert energy_mj(1, 1) == 1  # a thousandth of a millijoule, rounded up


@pytest.mark.parametrize("unit", OF_THE_MACHINE)
def test_what_nobody_measures_is_held_only_if_the_rule_says_how_much(unit: Unit) -> None:
    told = replace(RULE, estimates=Amounts({unit: 40}))

    blind = estimate_tool_call(RULE, unmeasurable=BLIND, milliwatts_per_core=7_000)
    assert unit not in blind
    assert estimate_tool_call(told, unmeasurable=BLIND).of(unit) == 40


@given(chars=st.integers(0, 10**9))
def test_four_characters_are_a_token_rounded_up(chars: int) -> None:
    assert chars <= 4 * context_tokens(chars) < chars + 4


def test_the_text_that_a_rule_lets_through_uncut_is_what_is_held_for_it() -> None:
    wide = replace(RULE, archive_above_bytes=100_001)
    told = replace(wide, estimates=Amounts({Unit.CONTEXT_TOKENS: 9}))

    assert estimate_tool_call(wide, unmeasurable={}).of(Unit.CONTEXT_TOKENS) == 25_001
    assert estimate_tool_call(told, unmeasurable={}).of(Unit.CONTEXT_TOKENS) == 9


@pytest.mark.requirement("unit.unmeasurable-denies")
def test_only_best_effort_excuses_what_nobody_can_measure() -> None:
    blind = {Unit.CPU_MS: "no cgroup"}

    assert unexcused(RULE, blind) == blind
    assert unexcused(replace(RULE, isolation=Isolation.BEST_EFFORT), blind) == {}


def test_an_estimate_of_time_above_its_limit_is_refused() -> None:
    with pytest.raises(InvalidPolicyError, match="estimate_wall_ms"):
        replace(RULE, estimate_wall_ms=2_001)


def test_an_estimate_of_processor_time_above_its_limit_is_refused() -> None:
    with pytest.raises(InvalidPolicyError, match="estimate_cpu_ms"):
        replace(RULE, limits=replace(LIMITS, cpu_ms=100), estimate_cpu_ms=101)


def rule_for(policy: Policy, tool: str, *, tenant: str = "acme", agent: str = "ada") -> str:
    return policy.rule_for(
        tool=ToolName(tool), tenant=TenantId(tenant), agent=PrincipalId(agent)
    ).name


def test_the_first_rule_that_covers_a_call_governs_it() -> None:
    policy = Policy(
        version="1",
        rules=(
            replace(RULE, name="reads", match=Match(tool="git__read_*")),
            replace(RULE, name="bob", match=Match(tool="git__*", agent="bob")),
            replace(RULE, name="git", match=Match(tool="git__*", tenant="acme")),
        ),
        fallback=replace(RULE, name="fallback"),
    )

    assert rule_for(policy, "git__read_file", agent="bob") == "reads"
    assert rule_for(policy, "git__push", agent="bob") == "bob"
    assert rule_for(policy, "git__push") == "git"
    assert rule_for(policy, "git__push", tenant="globex") == "fallback"
    assert rule_for(policy, "GIT__push") == "fallback"


@pytest.mark.requirement("plugins.estimators")
@given(
    st.dictionaries(st.sampled_from(sorted(EXPECTABLE)), st.integers(0, 10_000)),
    st.none() | st.integers(1, 5_000),
)
def test_what_is_expected_is_held_within_the_limits_and_never_below_the_price(
    named: dict[Unit, int], cpu_ms_max: int | None
) -> None:
    rule = replace(RULE, limits=replace(LIMITS, cpu_ms=cpu_ms_max))

    held = estimate_tool_call(with_expected(rule, Amounts(named)), unmeasurable={})

    plain = estimate_tool_call(rule, unmeasurable={})
    assert held.of(Unit.TOOL_CALLS) == 1
    assert RULE.cost_microusd <= held.of(Unit.COST_MICROUSD)
    assert held.of(Unit.WALL_MS) <= LIMITS.wall_ms
    assert cpu_ms_max is None or held.of(Unit.CPU_MS) <= cpu_ms_max
    bounded = {Unit.WALL_MS, Unit.CPU_MS, Unit.COST_MICROUSD}
    assert all(held.of(unit) == figure for unit, figure in named.items() if unit not in bounded)
    assert named or held == plain
