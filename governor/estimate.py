"""How much to reserve before a call, and what is reckoned where no counter exists."""

from collections.abc import Mapping
from dataclasses import replace

from governor.amounts import NOTHING, Amounts, Unit
from governor.limits import ExecutionLimits, Isolation
from governor.policy import ToolRule
from governor.usage import OF_PROBES

_CHARS_PER_TOKEN = 4
_BYTE_MS_PER_MIB_S = 1024 * 1024 * 1_000
_MILLI = 1_000
# What can be expected of a call beside its time.
EXPECTED_OTHERWISE = frozenset(
    {
        Unit.COST_MICROUSD,
        Unit.MEMORY_MIB_S,
        Unit.IO_BYTES,
        Unit.EGRESS_BYTES,
        Unit.ENERGY_MJ,
        Unit.CONTEXT_TOKENS,
        *OF_PROBES,
    }
)
EXPECTABLE = EXPECTED_OTHERWISE | {Unit.WALL_MS, Unit.CPU_MS}


def estimate_tool_call(
    rule: ToolRule, *, unmeasurable: Mapping[Unit, str], milliwatts_per_core: int | None = None
) -> Amounts:
    """Return what one tool call may cost at the most, as far as the rule can tell.

    The limit itself is held where the rule gives no smaller estimate: the machine stops
    a call there, so a budget cannot be overrun by more than one scheduling tick. Disk traffic
    has no limit, and memory, egress and what probes count may have none: nothing is held then,
    and what a call overran denies the next. A unit that the backend cannot measure is held only
    if the rule says how much.
    """
    if rule.is_free:
        return NOTHING
    limits, said = rule.limits, rule.estimates
    wall_ms = limits.wall_ms if rule.estimate_wall_ms is None else rule.estimate_wall_ms
    cpu_ms = _cpu_ms(rule, wall_ms)
    held = {
        Unit.COST_MICROUSD: rule.cost_microusd,
        Unit.TOOL_CALLS: 1,
        Unit.WALL_MS: wall_ms,
        # A longer result is cut, and a character is a byte or more.
        Unit.CONTEXT_TOKENS: context_tokens(rule.archive_above_bytes),
    }
    if rule.estimate_cpu_ms is not None or Unit.CPU_MS not in unmeasurable:
        held[Unit.CPU_MS] = cpu_ms
    if Unit.MEMORY_MIB_S not in unmeasurable:
        held[Unit.MEMORY_MIB_S] = -(-(limits.memory_bytes or 0) * wall_ms // _BYTE_MS_PER_MIB_S)
    if Unit.IO_BYTES not in unmeasurable:
        held[Unit.IO_BYTES] = 0
    if Unit.EGRESS_BYTES not in unmeasurable:
        held[Unit.EGRESS_BYTES] = limits.egress_bytes or 0
    if Unit.ENERGY_MJ not in unmeasurable and milliwatts_per_core is not None:
        held[Unit.ENERGY_MJ] = energy_mj(cpu_ms, milliwatts_per_core)
    for unit in OF_PROBES:
        if unit not in unmeasurable:
            held[unit] = probe_limit(limits, unit)
    held.update(said)
    return Amounts(held)


def with_expected(rule: ToolRule, expected: Amounts) -> ToolRule:
    """Return the rule with what somebody expects a call to use, as far as it can be held.

    A limit stays the most that is held, the rule's own price the least; one call is one call.
    """
    named = expected.by_unit
    wall_ms, cpu_ms = rule.estimate_wall_ms, rule.estimate_cpu_ms
    if Unit.WALL_MS in named:
        wall_ms = min(named[Unit.WALL_MS], rule.limits.wall_ms)
    if Unit.CPU_MS in named:
        most = rule.limits.cpu_ms
        cpu_ms = named[Unit.CPU_MS] if most is None else min(named[Unit.CPU_MS], most)
    others = {unit: figure for unit, figure in named.items() if unit in EXPECTED_OTHERWISE}
    if Unit.COST_MICROUSD in others:
        others[Unit.COST_MICROUSD] = max(others[Unit.COST_MICROUSD], rule.cost_microusd)
    return replace(
        rule,
        estimate_wall_ms=wall_ms,
        estimate_cpu_ms=cpu_ms,
        estimates=Amounts({**rule.estimates.by_unit, **others}),
    )


def probe_limit(limits: ExecutionLimits, unit: Unit) -> int:
    """Return how far the probe of a unit may count by the unit's name, 0 where nothing says it.

    A limit by the probe's own name ends a call too, but whose unit it is only the machine knows.
    """
    return next((most for name, most in limits.probe_limits if name == unit), 0)


def unexcused(rule: ToolRule, unmeasurable: Mapping[Unit, str]) -> Mapping[Unit, str]:
    """Return the units that nobody can measure and that the rule does not wave through."""
    is_excused = rule.is_free or rule.isolation is Isolation.BEST_EFFORT
    return {} if is_excused else unmeasurable


def context_tokens(chars: int) -> int:
    """Return how many tokens a text of that many characters adds to what a model reads.

    An estimate: four characters to a token, rounded up. Which tokenizer the model behind a
    client has is not known here; prose in English comes close, code and other scripts have
    more tokens than this says.
    """
    return -(-chars // _CHARS_PER_TOKEN)


def energy_mj(cpu_ms: int, milliwatts_per_core: int) -> int:
    """Return the energy of that much processor time, rounded up.

    An estimate: the configured draw of one busy core, whatever its clock did; memory, disks
    and the idle machine are not in it.
    """
    return -(-cpu_ms * milliwatts_per_core // _MILLI)


def _cpu_ms(rule: ToolRule, wall_ms: int) -> int:
    if rule.estimate_cpu_ms is not None:
        return rule.estimate_cpu_ms
    if rule.limits.cpu_ms is not None:
        return rule.limits.cpu_ms
    cores_milli = 1000 if rule.limits.cpu_millis is None else rule.limits.cpu_millis
    return -(-wall_ms * cores_milli // 1000)
