"""What a caller says that its call needs, and what of that it is granted."""

from dataclasses import dataclass, replace
from enum import StrEnum

from governor.fairness.claim import Priority
from governor.limits import ExecutionLimits

_QUARTERS = 4
_CPU_MILLIS_MIN = 10
_MEMORY_BYTES_MIN = 1024 * 1024
# As `cpu.weight` has it: a call without a word weighs 100 beside the others of its session.
_WEIGHTS = {Priority.LOW: 25, Priority.NORMAL: 100, Priority.HIGH: 400}


class Size(StrEnum):
    """How much of what a rule allows at the most a call needs: a quarter, a half, all."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    def of(self, ceiling: int) -> int:
        """Return that part of a ceiling, rounded up."""
        return -(-ceiling * _PARTS[self] // _QUARTERS)


_PARTS = {Size.LOW: 1, Size.MEDIUM: 2, Size.HIGH: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a call is said to need; None where nothing is said.

    `duration_ms` is how long it is expected to take, which is no limit.
    """

    size: Size | None = None
    memory_bytes: int | None = None
    cpu_millis: int | None = None
    duration_ms: int | None = None
    priority: Priority | None = None

    def over(self, other: "Intent") -> "Intent":
        """Return this intent, with the other's word where this says nothing."""
        return Intent(
            size=self.size or other.size,
            memory_bytes=_either(self.memory_bytes, other.memory_bytes),
            cpu_millis=_either(self.cpu_millis, other.cpu_millis),
            duration_ms=_either(self.duration_ms, other.duration_ms),
            priority=self.priority or other.priority,
        )


NO_INTENT = Intent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The limits that an intent comes to under a rule, and what of it was cut.

    `expected_ms` is how long the call is expected to take, None where nobody said. One that
    `is_held_to_refusal` declares memory that somebody has refused.
    """

    limits: ExecutionLimits
    expected_ms: int | None = None
    clamped: tuple[str, ...] = ()
    is_held_to_refusal: bool = False


def granted(intent: Intent, limits: ExecutionLimits, *, refused_bytes: int | None = None) -> Grant:
    """Return what an intent comes to within what a rule allows, which it never exceeds.

    Memory may go up to the rule's ceiling. Whoever says that it needs less gets less, and may
    still be raised to the ceiling while it runs. More than `refused_bytes` was refused before:
    no declaration goes beyond, and more is given only where somebody is asked again.
    """
    if intent == NO_INTENT:
        return Grant(limits=limits)
    clamped: list[str] = []
    ceiling = ceiling_bytes(limits)
    memory = _asked(intent.memory_bytes, intent.size, ceiling, floor=_MEMORY_BYTES_MIN)
    cpus = _asked(intent.cpu_millis, intent.size, limits.cpu_millis, floor=_CPU_MILLIS_MIN)
    expected_ms = intent.duration_ms
    for name, wanted, most in (
        ("memory_mib", memory, ceiling),
        ("cpus", cpus, limits.cpu_millis),
        ("duration_ms", expected_ms, limits.wall_ms),
    ):
        if wanted is not None and most is not None and wanted > most:
            clamped.append(name)
    is_refused = memory is not None and refused_bytes is not None and memory > refused_bytes
    if is_refused:
        memory = refused_bytes
        clamped = ["memory_mib", *(name for name in clamped if name != "memory_mib")]
    given = replace(
        limits,
        memory_bytes=_lower(memory, ceiling) if memory is not None else limits.memory_bytes,
        memory_ceiling_bytes=ceiling if memory is not None else limits.memory_ceiling_bytes,
        cpu_millis=_lower(cpus, limits.cpu_millis) if cpus is not None else limits.cpu_millis,
        weight_wished=None if intent.priority is None else _WEIGHTS[intent.priority],
    )
    return Grant(
        limits=given,
        expected_ms=None if expected_ms is None else min(expected_ms, limits.wall_ms),
        clamped=tuple(clamped),
        is_held_to_refusal=is_refused,
    )


def ceiling_bytes(limits: ExecutionLimits) -> int | None:
    """Return the most memory that a rule lets a call have; None where it has no limit."""
    if limits.memory_bytes is None:
        return None
    return max(limits.memory_bytes, limits.memory_ceiling_bytes or 0)


def _asked(said: int | None, size: Size | None, ceiling: int | None, *, floor: int) -> int | None:
    """Return how much is asked for: a figure says more than a word."""
    if said is not None:
        return max(said, floor)
    if size is None or ceiling is None:
        return None
    return max(size.of(ceiling), min(floor, ceiling))


def _lower(wanted: int, most: int | None) -> int:
    return wanted if most is None else min(wanted, most)


def _either(first: int | None, second: int | None) -> int | None:
    return second if first is None else first
