"""Seeded mixes of three sessions, and what a governor would expect of their calls."""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from governor.fairness.claim import Priority
from runtime.errors import RuntimeFaultError
from runtime.evaluate.os.traces import Call, Trace

MIB = 1 << 20
SESSIONS = 3
# A schedule exists where each session's largest call fits beside what all hold between calls,
# and beside what interpreters and the kernel's own pages take.
SCHEDULE_SLACK_BYTES = 64 * MIB
_DRAWS_MAX = 200_000
_QUANTILE = 0.9
_EXPECTED_BYTES_MIN = 16 * MIB
_BEFORE_SHARES = (0.2, 0.8)


class MixError(RuntimeFaultError):
    """No mix of the recorded sessions fits the wish."""


class Role(StrEnum):
    """Who a session is in a mix."""

    HIGH = "high"
    LOW_ONE = "low-1"
    LOW_TWO = "low-2"

    @property
    def priority(self) -> Priority:
        """Return the priority of its calls."""
        return Priority.HIGH if self is Role.HIGH else Priority.LOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One session in a mix: the part of its record that is replayed, with estimates."""

    role: Role
    trace: Trace
    expected: Mapping[str, int]

    def expected_bytes(self, call: Call, *, declared: bool) -> int:
        """Return what a governor expects of a call: what nine of ten like it held elsewhere.

        One that is `declared` says what it needs, with a tenth to spare.
        """
        expected = call.memory_bytes * 11 // 10 if declared else self.expected.get(call.kind, 0)
        return max(_EXPECTED_BYTES_MIN, expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Three sessions that begin together."""

    number: int
    parts: tuple[Part, ...]


def mixes_of(
    traces: Sequence[Trace], *, count: int, memory_bytes: int, window_ms: int, seed: int
) -> tuple[Mix, ...]:
    """Return mixes whose largest calls do not fit together, though one after another they do.

    Raises:
        MixError: too few such mixes can be drawn.
    """
    chance = random.Random(f"{seed} {memory_bytes}")  # noqa: S311 - a draw is no secret
    found: list[Mix] = []
    for _ in range(_DRAWS_MAX):
        if len(found) == count:
            break
        drawn = chance.sample(traces, SESSIONS)
        if len({trace.task for trace in drawn}) < SESSIONS or not is_contended(drawn, memory_bytes):
            continue
        parts = tuple(
            Part(
                role=role,
                trace=_window(trace, window_ms, chance),
                expected=expectations(traces, without=trace.task),
            )
            for role, trace in zip(Role, drawn, strict=True)
        )
        found.append(Mix(number=len(found), parts=parts))
    if len(found) < count:
        raise MixError(
            f"only {len(found)} of {count} mixes contend for {memory_bytes // MIB} MiB and have a "
            "schedule; try another --memory-mib"
        )
    return tuple(found)


def is_contended(traces: Sequence[Trace], memory_bytes: int) -> bool:
    """Tell whether the sessions do not fit at their peaks, and a schedule exists."""
    between = sum(trace.base_bytes for trace in traces)
    peaks = sum(trace.peak_bytes for trace in traces)
    return has_schedule(traces, memory_bytes) and between + peaks > memory_bytes


def has_schedule(traces: Sequence[Trace], memory_bytes: int) -> bool:
    """Tell whether each session's largest call fits beside what all hold between calls."""
    between = sum(trace.base_bytes for trace in traces)
    largest = max(trace.peak_bytes for trace in traces)
    return between + largest + SCHEDULE_SLACK_BYTES <= memory_bytes


def expectations(traces: Sequence[Trace], *, without: str) -> Mapping[str, int]:
    """Return what nine of ten calls of each kind hold, learned from all tasks but one."""
    held: dict[str, list[int]] = defaultdict(list)
    for trace in traces:
        if trace.task != without:
            for call in trace.calls:
                held[call.kind].append(call.memory_bytes)
    return {
        kind: sorted(found)[min(len(found) - 1, int(_QUANTILE * len(found)))]
        for kind, found in held.items()
    }


def _window(trace: Trace, window_ms: int, chance: random.Random) -> Trace:
    """Return the part of a record around its largest call that takes about `window_ms`."""
    sizes = [call.memory_bytes for call in trace.calls]
    first = last = sizes.index(max(sizes))
    before_ms = window_ms * chance.uniform(*_BEFORE_SHARES)
    taken_ms = 0
    while first > 0 and taken_ms < before_ms:
        first -= 1
        taken_ms += trace.calls[first].duration_ms + trace.calls[first].gap_ms
    taken_ms += trace.calls[last].duration_ms
    while last + 1 < len(trace.calls) and taken_ms < window_ms:
        last += 1
        taken_ms += trace.calls[last].duration_ms + trace.calls[last].gap_ms
    return replace(trace, calls=trace.calls[first : last + 1])
