from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Unit
from governor.errors import InvalidPolicyError
from governor.estimate import estimate_tool_call, unexcused
from governor.ids import PrincipalId, TenantId, ToolName
from governor.limits import ExecutionLimits, Isolation
from governor.policy import Match, Policy, ToolRule

LIMITS = ExecutionLimits(
    memory_bytes=None, pids=None, cpu_millis=None, cpu_ms=None, wall_ms=2_000, output_bytes=1_000
)
RULE = ToolRule(name="any", match=Match(), allow=True, limits=LIMITS, cost_microusd=3)


def test_the_limit_itself_is_held_where_the_rule_gives_no_estimate() -> None:
    estimate = estimate_tool_call(RULE, measures_cpu=True)

    assert estimate.as_dict() == {
        "cost_microusd": 3,
        "tool_calls": 1,
        "wall_ms": 2_000,
        "cpu_ms": 2_000,
    }


def test_the_rules_own_estimates_are_held_where_it_gives_them() -> None:
    rule = replace(RULE, estimate_wall_ms=100, estimate_cpu_ms=40)

    estimate = estimate_tool_call(rule, measures_cpu=True)

    assert (estimate.of(Unit.WALL_MS), estimate.of(Unit.CPU_MS)) == (100, 40)


def test_a_processor_time_that_nobody_measures_is_held_only_if_the_rule_says_how_much() -> None:
    told = replace(RULE, estimate_cpu_ms=40)

    assert Unit.CPU_MS not in estimate_tool_call(RULE, measures_cpu=False)
    assert estimate_tool_call(told, measures_cpu=False).of(Unit.CPU_MS) == 40


def test_a_limit_on_processor_time_is_its_estimate() -> None:
    rule = replace(RULE, limits=replace(LIMITS, cpu_ms=300, cpu_millis=500))

    assert estimate_tool_call(rule, measures_cpu=True).of(Unit.CPU_MS) == 300


@given(wall_ms=st.integers(1, 10**7), cpu_millis=st.integers(1, 64_000))
def test_processor_time_at_a_rate_is_rounded_up(wall_ms: int, cpu_millis: int) -> None:
    rule = replace(RULE, limits=replace(LIMITS, wall_ms=wall_ms, cpu_millis=cpu_millis))

    held = estimate_tool_call(rule, measures_cpu=True).of(Unit.CPU_MS)

    assert (held - 1) * 1000 < wall_ms * cpu_millis <= held * 1000


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
