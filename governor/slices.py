"""How a run without an end is paid for: slice by slice, each held before it begins."""

from collections.abc import Mapping

from governor.amounts import Amounts, Unit
from governor.denial import DenialReason, Denied, RemedyAction
from governor.estimate import energy_mj
from governor.ids import BudgetId
from governor.limits import ExecutionLimits
from governor.usage import OF_PROBES, OF_THE_MACHINE

# The first slices are short, so that little is held for a run that ends at once; the later ones
# long, so that a run of hours is not thousands of records. Where a budget is too short for a
# long one, the shortest is tried before the run is given up.
SLICE_MS_MIN = 500
SLICE_MS_FIRST = 1_000
SLICE_MS_MAX = 15_000
# What is left is used up to a last slice as short as this; less is not worth a record.
SLICE_MS_LAST = 50
# Whoever can only wait stands still for so long, altogether and at a time.
WAIT_MS_MAX = 60_000

_BY_LENGTH = frozenset({Unit.WALL_MS, Unit.CPU_MS, Unit.MEMORY_MIB_S, Unit.ENERGY_MJ})
_BYTE_MS_PER_MIB_S = 1024 * 1024 * 1_000
_MILLI = 1_000
_ONE_CORE_MILLIS = 1_000


def next_slice_ms(slice_ms: int) -> int:
    """Return how long the slice after one of this length is."""
    return min(2 * slice_ms, SLICE_MS_MAX)


def rate_millis(cpu_ms: int | None, wall_ms: int, *, limits: ExecutionLimits) -> int:
    """Return how much of the processors to hold for the next slice, in thousandths of one.

    Twice what the last one took, and one at the least: what is held is not there for others, so
    the whole machine is held for nobody who rests. What a slice takes beyond it is an overrun,
    recorded, and denies the slice after it.
    """
    seen = 0 if cpu_ms is None or wall_ms <= 0 else 2 * cpu_ms * _MILLI // wall_ms
    wanted = max(_ONE_CORE_MILLIS, seen)
    return wanted if limits.cpu_millis is None else min(wanted, limits.cpu_millis)


def held_for_slice(
    slice_ms: int,
    *,
    limits: ExecutionLimits,
    cpu_rate_millis: int,
    memory_mib_s: int,
    unmeasurable: Mapping[Unit, str],
    milliwatts_per_core: int | None,
) -> Amounts:
    """Return what to hold before a slice; `memory_mib_s` is what the last one held in a second."""
    cpu_ms = -(-slice_ms * cpu_rate_millis // _MILLI)
    most = memory_mib_s * slice_ms // _MILLI
    if limits.memory_bytes is not None:
        most = min(most, -(-limits.memory_bytes * slice_ms // _BYTE_MS_PER_MIB_S))
    # Of the others nothing is held, and what one slice overran denies the next.
    held = dict.fromkeys((*OF_THE_MACHINE, *OF_PROBES), 0)
    held |= {Unit.WALL_MS: slice_ms, Unit.CPU_MS: cpu_ms, Unit.MEMORY_MIB_S: most}
    if milliwatts_per_core is not None:
        held[Unit.ENERGY_MJ] = energy_mj(cpu_ms, milliwatts_per_core)
    return Amounts({unit: amount for unit, amount in held.items() if unit not in unmeasurable})


def fitting_slice_ms(slice_ms: int, denied: Denied) -> int | None:
    """Return how long a slice can be for which there is room; None where none is worth it.

    What is held grows with the length of a slice, so a shorter one needs that much less.
    """
    if denied.shortage is None:
        return None
    fits = slice_ms
    for short in (denied.shortage, *denied.also):
        if short.unit not in _BY_LENGTH or short.requested <= 0:
            return None
        fits = min(fits, slice_ms * max(0, short.remaining) // short.requested)
    return fits if SLICE_MS_LAST <= fits < slice_ms else None


def used_up_words(denied: Denied, allowance: BudgetId | None) -> str:
    """Return for a person which budget ended a run; `allowance` is what was set for this run."""
    short = denied.shortage
    if short is None:
        return denied.remedy.text
    whose = "set by --limits" if short.budget_id == allowance else f"budget {short.budget_id}"
    told = f"{short.unit}: {short.used:,} of {short.limit:,} used ({whose})"
    held = f", {short.reserved:,} held by what still runs" if short.reserved > 0 else ""
    left = ", and what is left is too little to go on with" if short.remaining > 0 else ""
    return told + held + left


def may_go_on(denied: Denied) -> bool:
    """Tell whether a run that was denied its next slice can stand still until there is room."""
    if denied.reason is DenialReason.SESSION_FROZEN:
        return True
    waits = denied.remedy.action is RemedyAction.RETRY_LATER
    return waits and (denied.retry_after_ms or 0) <= WAIT_MS_MAX
