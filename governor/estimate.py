"""How much to reserve before a call."""

from collections.abc import Mapping

from governor.amounts import Amounts, Unit
from governor.limits import Isolation
from governor.policy import ToolRule


def estimate_tool_call(rule: ToolRule, *, measures_cpu: bool) -> Amounts:
    """Return what one tool call may cost at the most, as far as the rule can tell.

    The limit itself is held where the rule gives no smaller estimate: the machine stops
    a call there, so a budget cannot be overrun by more than one scheduling tick.
    """
    limits = rule.limits
    wall_ms = limits.wall_ms if rule.estimate_wall_ms is None else rule.estimate_wall_ms
    held = {
        Unit.COST_MICROUSD: rule.cost_microusd,
        Unit.TOOL_CALLS: 1,
        Unit.WALL_MS: wall_ms,
    }
    if measures_cpu:
        held[Unit.CPU_MS] = _cpu_ms(rule, wall_ms)
    elif rule.estimate_cpu_ms is not None:
        held[Unit.CPU_MS] = rule.estimate_cpu_ms
    return Amounts(held)


def unexcused(rule: ToolRule, unmeasurable: Mapping[Unit, str]) -> Mapping[Unit, str]:
    """Return the units that nobody can measure and that the rule does not wave through."""
    return {} if rule.isolation is Isolation.BEST_EFFORT else unmeasurable


def _cpu_ms(rule: ToolRule, wall_ms: int) -> int:
    if rule.estimate_cpu_ms is not None:
        return rule.estimate_cpu_ms
    if rule.limits.cpu_ms is not None:
        return rule.limits.cpu_ms
    cores_milli = 1000 if rule.limits.cpu_millis is None else rule.limits.cpu_millis
    return -(-wall_ms * cores_milli // 1000)
