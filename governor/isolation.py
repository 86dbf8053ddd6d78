"""Which sessions run on, stand still or wait while they share one machine's memory and processors.

It is a decision about what is seen, made anew many times a second. Memory comes first: without
swap nothing takes back what a command holds, so commands must never be let grow together that
do not fit together. Two measures keep that: a call waits at the door while its estimate does
not fit, and a session stands still while what it is still expected to take does not fit, the
least important first. Processors come second: weights divide them, and where that is not enough
for an important session the lesser ones stand still for a moment, out of a credit that bounds
what this can cost them.

Nobody waits for ever. Where nobody could go on, the one that needs the least does; who has
stood still for long goes before the others of any priority.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from governor.errors import InvalidPolicyError
from governor.fairness.claim import Priority

_MIB = 1 << 20
_PERCENT = 100
# As of cgroup v2, from 1 to 10,000 with 100 as the usual one.
_WEIGHT_OF_ONE_SHARE = 25
# A call that holds more than was expected of it is expected to go on as it did lately, for so
# long, but not to take more than half as much again, nor less than a sixteenth.
_FORESEEN_MS = 2_000
_LATELY_MS = 200
_TRIED_MS = 500
_OUTGROWN_DIVISOR_MIN = 2
_OUTGROWN_DIVISOR_MAX = 16
_REACTION_MS = 60
_GROWS_BYTES_S = 8 * _MIB
_BRINK_DIVISOR = 4
_RESERVE_DIVISOR = 8
_RESERVE_FADES = 8
# Who has stood still for so many times the patience goes before more important ones as well.
_BEFORE_ALL = 5
_MS_PER_S = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationTerms:
    """How careful to be.

    `margin_bytes` stay free: what commands take between two looks. `standstill_percent` is how
    much of its time a session may stand still for others' want of a processor; it is given
    `slice_ms` at a time, when a more important one waits for `stall_percent` of its time or more.
    One that has stood still for `patience_ms` without a break goes before its equals, and after
    some times that before all.

    Raises:
        InvalidPolicyError: a number is out of range.
    """

    margin_bytes: int = 80 * _MIB
    standstill_percent: int = 10
    stall_percent: int = 25
    slice_ms: int = 100
    patience_ms: int = 2_000

    def __post_init__(self) -> None:
        """Refuse terms that would let nobody run."""
        if not (self.margin_bytes >= 0 and 0 <= self.standstill_percent < _PERCENT):
            raise InvalidPolicyError("isolation: margin_bytes >= 0, standstill_percent below 100")
        if min(self.stall_percent, self.slice_ms, self.patience_ms) <= 0:
            raise InvalidPolicyError("isolation: stall_percent, slice_ms, patience_ms above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One session as it stands.

    `memory_bytes` is all that it holds, `calls_bytes` what of that its running calls hold, and
    `expected_bytes` what those were expected to hold at their peaks. `stall_percent` is for how
    much of the time since the last look something in it waited for a processor, `busy_percent`
    how much of one processor it used in that time; None is unknown.
    """

    session: str
    priority: Priority
    memory_bytes: int
    calls_bytes: int = 0
    expected_bytes: int = 0
    calls: int = 0
    stall_percent: int | None = None
    busy_percent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call that wants to start: whose it is, its estimate, and since when it waits."""

    session: str
    priority: Priority
    expected_bytes: int
    waiting_since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """What is to be in force: a weight for each session, protected memory, who stands still.

    What a session is to keep when memory is reclaimed is in `protected_bytes`.
    """

    weights: Mapping[str, int]
    protected_bytes: Mapping[str, int]
    frozen: frozenset[str]


@dataclass(slots=True)
class _Record:
    """What is remembered of a session."""

    seen_ms: int
    frozen_since_ms: int | None = None
    for_processors: bool = False
    ahead: int = 0
    rate_bytes_s: int = 0
    calls_bytes: int = 0
    credit_ms: int = 0
    usual_bytes: int = 0


@dataclass(slots=True)
class IsolationControl:
    """Decides, from one look to the next."""

    terms: IsolationTerms = field(default_factory=IsolationTerms)
    _records: dict[str, _Record] = field(default_factory=dict)
    _carrier: str | None = None

    def arrange(self, seen: Sequence[Seen], *, capacity_bytes: int, now_ms: int) -> Arrangement:
        """Return what is to be in force until the next look."""
        self._remember(seen, now_ms)
        for_memory = self._held_for_memory(seen, capacity_bytes)
        for_processors = self._held_for_processors(seen, for_memory, now_ms)
        for one in seen:
            record = self._records[one.session]
            is_frozen = one.session in for_memory or one.session in for_processors
            record.for_processors = one.session in for_processors
            if not is_frozen:
                record.frozen_since_ms = None
            elif record.frozen_since_ms is None:
                record.frozen_since_ms = now_ms
        return Arrangement(
            weights={one.session: weight_of(one.priority) for one in seen},
            protected_bytes=self._protected(seen, capacity_bytes),
            frozen=for_memory | for_processors,
        )

    def next_in(
        self, waiting: Sequence[Asked], seen: Sequence[Seen], *, capacity_bytes: int, now_ms: int
    ) -> int | None:
        """Return which of the waiting calls may start now, by its place; None is none of them."""
        others = [one for one in seen if one.calls]
        order = sorted(range(len(waiting)), key=lambda place: self._turn(waiting[place], now_ms))
        for place in order:
            asked = waiting[place]
            if not others or self._fits(asked, seen, capacity_bytes, now_ms):
                return place
            if self._has_waited(asked, now_ms):
                return None  # smaller ones must not take its room for ever
        return None

    def growth_of(self, one: Seen) -> int:
        """Return what the running calls of a session are still expected to take."""
        if not one.calls:
            return 0
        if one.calls_bytes < one.expected_bytes:
            return one.expected_bytes - one.calls_bytes
        record = self._records.get(one.session)
        rate = 0 if record is None else record.rate_bytes_s
        least = one.calls_bytes // _OUTGROWN_DIVISOR_MAX
        most = one.calls_bytes // _OUTGROWN_DIVISOR_MIN
        return max(least, min(most, rate * _FORESEEN_MS // _MS_PER_S))

    def _note_growth(self, record: _Record, one: Seen, past_ms: int) -> None:
        """Learn how fast the calls of a session take memory; not while they stand still."""
        if not one.calls:
            record.rate_bytes_s = 0
        elif record.frozen_since_ms is not None:
            # It may have been at its peak already: after a while it is tried, and watched.
            record.rate_bytes_s -= record.rate_bytes_s * min(past_ms, _TRIED_MS) // _TRIED_MS
        elif past_ms > 0:
            now = max(0, one.calls_bytes - record.calls_bytes) * _MS_PER_S // past_ms
            weight = min(past_ms, _LATELY_MS)
            record.rate_bytes_s += (now - record.rate_bytes_s) * weight // _LATELY_MS
        if past_ms > 0 or not one.calls:
            record.calls_bytes = one.calls_bytes

    def _fits(self, asked: Asked, seen: Sequence[Seen], capacity_bytes: int, now_ms: int) -> bool:
        """Tell whether a call's estimate fits beside what runs, and what may come."""
        room = capacity_bytes - self.terms.margin_bytes - sum(one.memory_bytes for one in seen)
        # The lesser ones stand still when it comes to that, so what they may still take is
        # not in the way of a more important call.
        room -= sum(
            self.growth_of(one) for one in seen if one.priority.share >= asked.priority.share
        )
        if not self._has_waited(asked, now_ms):
            room -= self._reserve(asked, seen, capacity_bytes)
        return asked.expected_bytes <= room

    def _has_waited(self, asked: Asked, now_ms: int) -> bool:
        return now_ms - asked.waiting_since_ms >= self.terms.patience_ms

    def _turn(self, asked: Asked, now_ms: int) -> tuple[bool, int, int]:
        is_first = self._has_waited(asked, now_ms)
        return (not is_first, 0 if is_first else -asked.priority.share, asked.waiting_since_ms)

    def _remember(self, seen: Sequence[Seen], now_ms: int) -> None:
        """Count credit and learn what calls usually hold; forget who is gone."""
        present = {one.session for one in seen}
        for gone in self._records.keys() - present:
            del self._records[gone]
        for one in seen:
            record = self._records.setdefault(one.session, _Record(seen_ms=now_ms))
            past_ms = now_ms - record.seen_ms
            record.seen_ms = now_ms
            if record.for_processors:
                record.credit_ms = max(0, record.credit_ms - past_ms)
            elif one.calls and record.frozen_since_ms is None:
                earned_ms = past_ms * self.terms.standstill_percent / _PERCENT
                record.credit_ms = min(4 * self.terms.slice_ms, round(record.credit_ms + earned_ms))
            since_ms = record.frozen_since_ms
            if not one.calls:
                record.ahead = 0
            elif since_ms is not None:
                # Kept until it is done, or it would stop again at once.
                stood = (now_ms - since_ms) // self.terms.patience_ms
                record.ahead = max(record.ahead, stood)
            self._note_growth(record, one, past_ms)
            if one.calls:
                fading = (record.usual_bytes - one.calls_bytes) >> _RESERVE_FADES
                record.usual_bytes = max(one.calls_bytes, record.usual_bytes - fading)

    def _held_for_memory(self, seen: Sequence[Seen], capacity_bytes: int) -> frozenset[str]:
        """Return who stands still because what it may still take does not fit."""
        order = sorted((one for one in seen if one.calls), key=self._rank)
        free = capacity_bytes - sum(one.memory_bytes for one in seen)
        room = free - self.terms.margin_bytes
        held: set[str] = set()
        for one in order:
            needed = self.growth_of(one)
            if self._records[one.session].frozen_since_ms is not None:
                # A little more than it takes to go on, or it would start and stop at each look.
                needed += min(needed, self.terms.margin_bytes) // 2
            if needed <= room:
                room -= self.growth_of(one)
            elif not self._takes(one, free):
                continue  # as long as it grows no more, its end can only help
            elif one is not order[0] or free < self._brink_of(one):
                held.add(one.session)
            else:
                room = 0  # the most important one goes on until there really is nothing left
        self._carrier = self._chosen(order, free) if order and len(held) == len(order) else None
        return frozenset(held - {self._carrier})

    def _takes(self, one: Seen, free: int) -> bool:
        """Tell whether a session takes memory now, or would if it did not stand still.

        One that stands still is tried after a while, unless too little is left to try anything.
        """
        record = self._records[one.session]
        is_at_rest = record.rate_bytes_s < _GROWS_BYTES_S
        if record.frozen_since_ms is not None:
            return not is_at_rest or free < self.terms.margin_bytes
        return not is_at_rest

    def _brink_of(self, one: Seen) -> int:
        """Return how little may be left before even the most important session stands still."""
        soon = self._records[one.session].rate_bytes_s * _REACTION_MS // _MS_PER_S
        return min(self.terms.margin_bytes, self.terms.margin_bytes // _BRINK_DIVISOR + soon)

    def _chosen(self, order: Sequence[Seen], free: int) -> str:
        """Return who goes on where nobody fits: whose end frees most, and the same until then.

        To change between two that both grow would have neither come to an end.
        """
        carrier = next((one for one in order if one.session == self._carrier), None)
        able = [one for one in order if self.growth_of(one) <= free]
        if able:
            best = max(able, key=lambda one: one.calls_bytes)
            keeps = (
                carrier in able
                and carrier is not None
                and 2 * carrier.calls_bytes >= best.calls_bytes
            )
        else:
            best = min(order, key=self.growth_of)
            keeps = carrier is not None and self.growth_of(carrier) <= 2 * self.growth_of(best)
        return carrier.session if carrier is not None and keeps else best.session

    def _held_for_processors(
        self, seen: Sequence[Seen], held: frozenset[str], now_ms: int
    ) -> frozenset[str]:
        """Return who stands still for a moment so that a more important one is not kept waiting."""
        disturbed = [
            one.priority.share
            for one in seen
            if one.calls
            and one.session not in held
            and one.stall_percent is not None
            and one.stall_percent >= self.terms.stall_percent
        ]
        highest = max(disturbed, default=0)
        found: set[str] = set()
        for one in seen:
            record = self._records[one.session]
            if not one.calls or one.session in held:
                continue
            if record.for_processors and record.frozen_since_ms is not None:
                is_over = now_ms - record.frozen_since_ms >= self.terms.slice_ms
                if record.credit_ms and not is_over:
                    found.add(one.session)
            elif (
                one.priority.share < highest
                and record.credit_ms >= self.terms.slice_ms
                and self._is_busy(one)
            ):
                found.add(one.session)
        return frozenset(found)

    def _is_busy(self, one: Seen) -> bool:
        """Tell whether a session uses processors: the others are none the better for its rest."""
        return one.busy_percent is None or one.busy_percent >= self.terms.stall_percent

    def _rank(self, one: Seen) -> tuple[bool, int, int, int]:
        ahead = self._records[one.session].ahead
        is_patient = ahead < _BEFORE_ALL
        # The end of who holds most frees most.
        return (is_patient, -one.priority.share, -ahead, -one.calls_bytes)

    def _protected(self, seen: Sequence[Seen], capacity_bytes: int) -> Mapping[str, int]:
        """Return what each session keeps when memory is reclaimed: the lowest priority nothing."""
        lowest = min((one.priority.share for one in seen), default=0)
        protected: dict[str, int] = {}
        left = capacity_bytes
        for one in sorted(seen, key=lambda one: -one.priority.share):
            wanted = one.memory_bytes + self.growth_of(one) if one.priority.share > lowest else 0
            protected[one.session] = min(wanted, left)
            left -= protected[one.session]
        return protected

    def _reserve(self, asked: Asked, seen: Sequence[Seen], capacity_bytes: int) -> int:
        """Return what is kept free for calls of more important sessions that may come."""
        usual = [
            self._records[one.session].usual_bytes
            for one in seen
            if one.session in self._records
            and not one.calls
            and one.priority.share > asked.priority.share
        ]
        return min(max(usual, default=0), capacity_bytes // _RESERVE_DIVISOR)


def weight_of(priority: Priority) -> int:
    """Return the weight of a session's processors, as of cgroup v2."""
    return priority.share * _WEIGHT_OF_ONE_SHARE
