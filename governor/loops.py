"""Loops: calls that repeat, alternate or vary without a new result, and what is done about them.

A call repeats another only if it asked the same and got the same; a changed result is progress.
How sure that is decides what may follow. The same arguments over and over are a loop for any
tool. Arguments that merely look alike are one for a tool that only reads; a tool that writes may
well say "ok" to each of ten different orders, so there they end in a reminder at the most.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile

from governor.errors import InvalidPolicyError
from governor.ids import CallId
from governor.likeness import Print, sketch_of

COUNT_MAX = 50
# The longest cycle that is looked for: A B C D A B C D …
PERIOD_MAX = 4
ENTRIES_MAX = COUNT_MAX * PERIOD_MAX
HISTORY_BYTES_MAX = 64 * 1024
# Beside the sketch an entry holds three digests, an id and the objects around them.
_ENTRY_BYTES = 250


class LoopKind(StrEnum):
    """How calls went round in a circle."""

    IDENTICAL = "identical"
    ALTERNATING = "alternating"
    NEAR_IDENTICAL = "near_identical"
    NO_PROGRESS = "no_progress"


class LoopMeasure(StrEnum):
    """What is done about a loop, mildest first."""

    REMIND = "remind"
    SERVE = "serve"
    DENY = "deny"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRule:
    """At which call of a loop each measure begins; 0 is never.

    `stale` and `stale_deny` are for calls that differ and bring nothing new. `is_repeatable`
    is the operator's word that a repeat changes nothing, for tools that do not say so
    themselves. A call is forgotten after `within_ms`, so that looking once a minute whether
    something has changed is no loop.

    Raises:
        InvalidPolicyError: a count is out of range, or a harder measure begins before a milder.
    """

    remind: int = 3
    serve: int = 0
    deny: int = 0
    pause: int = 0
    stale: int = 6
    stale_deny: int = 0
    is_repeatable: bool = False
    within_ms: int = 300_000

    def __post_init__(self) -> None:
        """Refuse a ladder that cannot be climbed."""
        for ladder in (("remind", "serve", "deny", "pause"), ("stale", "stale_deny")):
            below = ("", 0)
            for name in ladder:
                count = getattr(self, name)
                if count and not 2 <= count <= COUNT_MAX:  # noqa: PLR2004 - one call is no loop
                    message = f"loops.{name}: {count} is outside 2..{COUNT_MAX}; 0 is never"
                    raise InvalidPolicyError(message)
                if count and count <= below[1]:
                    message = f"loops.{name}: {count} is not above {below[0]} = {below[1]}"
                    raise InvalidPolicyError(message)
                below = (name, count) if count else below
        if self.within_ms <= 0:
            message = f"loops.within_ms: {self.within_ms} is not above 0"
            raise InvalidPolicyError(message)


_ORDER = list(LoopMeasure)
REMINDERS = LoopRule()
BREAKER = LoopRule(serve=4, deny=6, pause=12, stale_deny=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call of a session that was answered, whether it ran or a measure stood in for it.

    `answer` is the call whose result it got: itself, or an earlier one. `result` is None
    before it has run. `is_reading` says that the tool changes nothing, `is_repeatable` that
    doing it again changes nothing more.
    """

    answer: CallId
    asked: Print
    result: bytes | None
    is_reading: bool
    is_repeatable: bool
    is_error: bool
    at_ms: int

    def answered_like(self, other: "Entry") -> "Entry":
        """Return the entry of a call that did not run, with the result that it would repeat."""
        return replace(self, answer=other.answer, result=other.result, is_error=other.is_error)


def opaque(answer: CallId, *, at_ms: int) -> Entry:
    """Return the entry of a call that nothing repeats: whatever it did, it parts the calls."""
    name = answer.encode()
    return Entry(
        answer=answer,
        asked=Print(tool="", exact=name, loose=name, sketch=sketch_of([answer])),
        result=name,
        is_reading=False,
        is_repeatable=False,
        is_error=False,
        at_ms=at_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop at its present length, and the measure that its rule takes.

    `like` is the earlier call that the present one repeats.
    """

    kind: LoopKind
    count: int
    measure: LoopMeasure
    like: Entry


class History:
    """The last calls of one session, bounded in number and in bytes."""

    def __init__(self) -> None:
        """Start with none."""
        self._entries: deque[Entry] = deque()
        self._none_before_ms = 0  # nothing that is remembered is older than this
        self.size_bytes = 0

    def __len__(self) -> int:
        """Return how many calls are remembered."""
        return len(self._entries)

    def note(self, entry: Entry) -> None:
        """Remember an answered call; the oldest are forgotten for it."""
        assert entry.result is not None, "what is remembered was answered"
        self._none_before_ms = (
            min(self._none_before_ms, entry.at_ms) if self._entries else entry.at_ms
        )
        self._entries.append(entry)
        self.size_bytes += _size_of(entry)
        while len(self._entries) > ENTRIES_MAX or self.size_bytes > HISTORY_BYTES_MAX:
            self.size_bytes -= _size_of(self._entries.popleft())

    def since(self, at_ms: int) -> list[Entry]:
        """Return the last calls in a row that were answered after `at_ms`, oldest first."""
        if self._none_before_ms > at_ms:
            return list(self._entries)
        self._none_before_ms = min((each.at_ms for each in self._entries), default=0)
        fresh = []
        for entry in reversed(self._entries):
            if entry.at_ms <= at_ms:
                break
            fresh.append(entry)
        fresh.reverse()
        return fresh


def judge_before(history: History, entry: Entry, rule: LoopRule) -> Loop | None:
    """Return the loop that a call would lengthen, if the rule keeps it from running."""
    assert entry.result is None, "it has not run"
    return _hardest(_loops(history.since(entry.at_ms - rule.within_ms), entry, rule))


def judge_after(history: History, entry: Entry, rule: LoopRule) -> Loop | None:
    """Return the loop that a call has lengthened by its result, to remind of it."""
    assert entry.result is not None, "it has run"
    return _hardest(_loops(history.since(entry.at_ms - rule.within_ms), entry, rule))


def _loops(past: list[Entry], entry: Entry, rule: LoopRule) -> Iterator[Loop]:
    """Yield the loops that the call belongs to and that have come to a measure."""
    if not past:
        return
    yield from _repetition(past, entry, rule)
    yield from _variation(past, entry, rule)
    yield from _stagnation(past, entry, rule)


def _hardest(loops: Iterable[Loop]) -> Loop | None:
    """Return the loop with the hardest measure; of several the first, which is the surest."""
    return max(loops, key=lambda loop: _ORDER.index(loop.measure), default=None)


def _repetition(past: list[Entry], entry: Entry, rule: LoopRule) -> Iterator[Loop]:
    """Yield the loop of identical calls, one after the other or in a cycle."""
    period, count = _longest(past, entry, _is_same)
    like = past[-period]
    # What came between may have changed what the call would find.
    can_serve = not like.is_error and all(each.is_repeatable for each in past[-period:])
    measure = _measure_at(count, entry, rule, can_serve=can_serve)
    if measure is not None:
        kind = LoopKind.IDENTICAL if period == 1 else LoopKind.ALTERNATING
        yield Loop(kind=kind, count=count, measure=measure, like=like)


def _variation(past: list[Entry], entry: Entry, rule: LoopRule) -> Iterator[Loop]:
    """Yield the loop of calls that look alike; no earlier result is served for them."""
    period, count = _longest(past, entry, _is_alike)
    like = past[-period]
    measure = _measure_at(count, entry, rule, can_serve=False)
    if not all(each.is_reading for each in (*past[-period:], entry)):
        is_due = entry.result is not None and 0 < rule.stale <= count
        measure = LoopMeasure.REMIND if is_due else None
    if measure is not None:
        yield Loop(kind=LoopKind.NEAR_IDENTICAL, count=count, measure=measure, like=like)


def _stagnation(past: list[Entry], entry: Entry, rule: LoopRule) -> Iterator[Loop]:
    """Yield the loop of different calls that keep getting the same answer.

    Each must have read or failed: "ok" is the answer to many orders. A call is kept from
    running only after its own tool alone has been asked in vain.
    """
    has_run = entry.result is not None
    result = entry.result if has_run else past[-1].result

    def is_vain(each: Entry) -> bool:
        if not has_run and each.asked.tool != entry.asked.tool:
            return False
        return each.result == result and (each.is_reading or (has_run and each.is_error))

    if not (is_vain(entry) if has_run else entry.is_reading):
        return
    count = 1 + sum(1 for _ in takewhile(is_vain, reversed(past)))
    if has_run and 0 < rule.stale <= count:
        yield Loop(
            kind=LoopKind.NO_PROGRESS, count=count, measure=LoopMeasure.REMIND, like=past[-1]
        )
    if not has_run and 0 < rule.stale_deny <= count:
        yield Loop(kind=LoopKind.NO_PROGRESS, count=count, measure=LoopMeasure.DENY, like=past[-1])


def _longest(
    past: list[Entry], entry: Entry, matches: Callable[[Entry, Entry], bool]
) -> tuple[int, int]:
    """Return the period with the most rounds, the shortest of several, and the rounds."""
    best = (1, 1)
    for period in range(1, min(PERIOD_MAX, len(past)) + 1):
        if (len(past) + 1) // period <= best[1]:
            # A longer cycle cannot have gone round more often than that.
            break
        if not matches(entry, past[-period]):
            continue
        at = len(past) - 1
        while at >= period and matches(past[at], past[at - period]):
            at -= 1
        rounds = (len(past) - at) // period + 1
        if rounds > best[1]:
            best = (period, rounds)
    return best


def _measure_at(count: int, entry: Entry, rule: LoopRule, *, can_serve: bool) -> LoopMeasure | None:
    """Return the hardest measure that has begun; a call that has run can only be reminded of."""
    if entry.result is not None:
        return LoopMeasure.REMIND if 0 < rule.remind <= count else None
    if 0 < rule.pause <= count:
        return LoopMeasure.PAUSE
    if 0 < rule.deny <= count:
        return LoopMeasure.DENY
    return LoopMeasure.SERVE if can_serve and 0 < rule.serve <= count else None


def _is_same(later: Entry, earlier: Entry) -> bool:
    return _got_the_same(later, earlier) and later.asked.is_same(earlier.asked)


def _is_alike(later: Entry, earlier: Entry) -> bool:
    return _got_the_same(later, earlier) and later.asked.is_alike(earlier.asked)


def _got_the_same(later: Entry, earlier: Entry) -> bool:
    return later.result is None or later.result == earlier.result


def _size_of(entry: Entry) -> int:
    return _ENTRY_BYTES + len(entry.asked.sketch)
