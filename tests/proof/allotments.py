"""Allotments under everything that may go wrong between replicas and the authority.

Messages are lost, doubled, late and out of order; replicas are cut off, stop for a while, die,
come back with their books or without; their clocks are minutes apart. An upstream counts what is
really spent in each window, and never counts more than the limit. All of it is drawn from a seed.
"""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from governor.allotment import Ask, Grant, Holding, Pool, Share, grant

BEAT_S, RETRY_S = 5.0, 1.0
# A call that waits for a grant longer than this is denied.
PATIENCE_S = 3.0


class Flaw(StrEnum):
    """A protocol that is almost this one; the simulation has to find each."""

    RECLAIMS_BY_CLOCK = "what a silent replica holds is given to others"
    RETURNS_DIFFERENCES = "what is given back is said as a difference, and added up"
    RETURNS_UNWRITTEN = "what is given back is said before it is stored"
    KEEPS_ITS_NAME = "a replica without its books goes on under its old name"


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What goes wrong, how often: shares of messages, and events for each replica and hour."""

    lost: float = 0.0
    doubled: float = 0.0
    delay_s: float = 0.05
    cut_off_per_h: float = 0.0
    crashes_per_h: float = 0.0
    books_lost: float = 0.0
    pauses_per_h: float = 0.0
    skew_s: float = 0.0


CALM = Trouble()
STORM = Trouble(
    lost=0.1,
    doubled=0.1,
    delay_s=0.5,
    cut_off_per_h=4.0,
    crashes_per_h=2.0,
    books_lost=0.2,
    pauses_per_h=4.0,
    skew_s=120.0,
)


@dataclass(frozen=True, kw_only=True)
class Story:
    """How large it is: replicas, the limit of a window, calls and what they cost."""

    replicas: int
    limit: int
    window_s: float = 600.0
    windows: int = 2
    calls_per_s: float = 1.0
    """Of each replica, in the mean; a few have most of them."""
    cost_max: int = 20
    call_s: float = 2.0
    trouble: Trouble = CALM
    flaw: Flaw | None = None


@dataclass
class Replica:
    """A process: its books by window, what waits, and whether anybody hears it."""

    name: str
    rate: float
    skew_s: float
    shares: dict[int, Share] = field(default_factory=dict)
    waiting: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    running: Counter[int] = field(default_factory=Counter)
    life: int = 0
    cut_until_s: float = 0.0
    stopped_until_s: float = 0.0
    foreseen: float = 0.0


class OverspentError(AssertionError):
    """More was spent in a window than its limit."""


class Simulation:
    """One story; `run` plays it and returns its figures."""

    def __init__(self, story: Story, seed: int) -> None:
        self._story = story
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._now_s = 0.0
        self._pools: dict[int, Pool] = defaultdict(lambda: Pool(limit=story.limit))
        self._holdings: dict[tuple[int, str], Holding] = defaultdict(Holding)
        self._heard_s: dict[tuple[int, str], float] = {}
        self._known: dict[int, set[str]] = defaultdict(set)
        self.spent: Counter[int] = Counter()
        self.figures: Counter[str] = Counter()
        self._replicas = [self._new_replica(number) for number in range(story.replicas)]

    def run(self) -> Counter[str]:
        """Return what happened.

        Raises:
            OverspentError: more was spent in a window than its limit.
        """
        for replica in self._replicas:
            self._begin(replica)
        ends_s = self._story.window_s * self._story.windows
        while self._events and self._events[0][0] <= ends_s:
            self._now_s, _, act = heapq.heappop(self._events)
            act()
        for window in range(self._story.windows):
            self.figures["limit"] += self._story.limit
            self.figures["spent"] += self.spent[window]
        return self.figures

    def _new_replica(self, number: int) -> Replica:
        # A tenth of the replicas have half of the calls.
        rate = self._story.calls_per_s * (5.0 if number % 10 == 0 else 5.0 / 9.0)
        skew_s = self._random.uniform(-1, 1) * self._story.trouble.skew_s
        return Replica(name=f"r{number}", rate=rate, skew_s=skew_s)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self._now_s + seconds, self._number, act))

    def _begin(self, replica: Replica) -> None:
        trouble = self._story.trouble
        self._after(self._random.expovariate(replica.rate), lambda: self._arrive(replica))
        self._after(self._random.uniform(0, BEAT_S), lambda: self._beat(replica))
        for per_h, happen in (
            (trouble.cut_off_per_h, self._cut_off),
            (trouble.crashes_per_h, self._crash),
            (trouble.pauses_per_h, self._pause),
        ):
            if per_h:
                self._happens(replica, per_h, happen)

    def _happens(self, replica: Replica, per_h: float, happen: Callable[[Replica], None]) -> None:
        def again() -> None:
            happen(replica)
            self._happens(replica, per_h, happen)

        self._after(self._random.expovariate(per_h / 3600), again)

    # What a replica does.

    def _window(self, replica: Replica) -> int:
        """Return the window that it is by the replica's clock."""
        return max(0, int((self._now_s + replica.skew_s) // self._story.window_s))

    def _arrive(self, replica: Replica) -> None:
        """A call arrives; it is admitted from the share, or waits for a grant."""
        self._after(self._random.expovariate(replica.rate), lambda: self._arrive(replica))
        if self._now_s < replica.stopped_until_s:
            return
        window, cost = self._window(replica), self._random.randint(1, self._story.cost_max)
        replica.foreseen = replica.foreseen * 0.9 + cost * replica.rate * BEAT_S * 0.1
        self.figures["calls"] += 1
        if not self._admit(replica, window, cost):
            replica.waiting.setdefault(window, []).append((self._now_s, cost))
            self._say(replica, window)

    def _admit(self, replica: Replica, window: int, cost: int) -> bool:
        admitted = replica.shares.get(window, Share()).admitted(cost)
        if admitted is None:
            return False
        replica.shares[window] = admitted
        replica.running[window] += cost
        life = replica.life
        actual = self._random.randint(0, cost)
        self._spend(window, actual)
        seconds = self._random.expovariate(1 / self._story.call_s)
        self._after(seconds, lambda: self._end(replica, life, window, cost, actual))
        return True

    def _spend(self, window: int, cost: int) -> None:
        self.spent[window] += cost
        if self.spent[window] > self._story.limit:
            message = f"{self.spent[window]} of {self._story.limit} in window {window}"
            raise OverspentError(message)

    def _end(self, replica: Replica, life: int, window: int, held: int, spent: int) -> None:
        # A process that died settles nothing; its next life charged what was held.
        if replica.life == life:
            replica.shares[window] = replica.shares[window].settled(held=held, spent=spent)
            replica.running[window] -= held

    def _beat(self, replica: Replica) -> None:
        """Say how it stands, now and then; what is not foreseen to be used goes back."""
        self._after(BEAT_S, lambda: self._beat(replica))
        if self._now_s < replica.stopped_until_s:
            return
        for window in sorted(replica.shares.keys() | replica.waiting.keys()):
            if window >= self._window(replica) - 1:
                self._say(replica, window)

    def _say(self, replica: Replica, window: int, *, keeps: int | None = None) -> None:
        share = replica.shares.setdefault(window, Share())
        waits = self._still_waiting(replica, window)
        is_over = window < self._window(replica)
        reserve = 0 if is_over else int(replica.foreseen)
        keeps = reserve if keeps is None else keeps
        given_back = share.given_back(keeps=sum(waits) + 2 * keeps)
        if self._story.flaw is not Flaw.RETURNS_UNWRITTEN:
            replica.shares[window] = given_back
        needs = max(0, min(waits, default=0) - max(0, given_back.free)) if waits else 0
        wants = 0 if is_over or keeps == 0 else max(0, sum(waits) + reserve - given_back.free)
        ask = given_back.ask(needs=needs, wants=max(needs, wants))
        if self._story.flaw is Flaw.RETURNS_DIFFERENCES:
            ask = replace(ask, returned=given_back.returned - share.returned)
        self._send(replica, window, ask)

    def _still_waiting(self, replica: Replica, window: int) -> list[int]:
        """Return what waits; whatever has waited too long is denied."""
        waits = replica.waiting.get(window, [])
        late = [one for one in waits if self._now_s - one[0] > PATIENCE_S]
        self.figures["denied"] += len(late)
        for _, cost in late:
            if self.spent[window] + cost <= self._story.limit * 0.99:
                self.figures["denied with a hundredth left"] += 1
        replica.waiting[window] = [one for one in waits if one not in late]
        return [cost for _, cost in replica.waiting[window]]

    # The way between, and the authority.

    def _send(self, replica: Replica, window: int, ask: Ask) -> None:
        self.figures["messages"] += 1
        name, life = replica.name, replica.life
        for _ in range(self._copies(replica)):
            self._after(self._delay_s(), lambda: self._hear(replica, life, name, window, ask))

    def _copies(self, replica: Replica) -> int:
        trouble = self._story.trouble
        if self._now_s < replica.cut_until_s or self._random.random() < trouble.lost:
            return 0
        return 2 if self._random.random() < trouble.doubled else 1

    def _delay_s(self) -> float:
        return self._random.expovariate(1 / self._story.trouble.delay_s)

    def _hear(self, replica: Replica, life: int, name: str, window: int, ask: Ask) -> None:
        """Answer as the authority does; each answer says what time it is."""
        said_s = self._now_s
        if window > self._now_s // self._story.window_s:
            self._after(self._delay_s(), lambda: self._told_the_time(replica, window, said_s))
            return
        key = (window, name)
        self._known[window].add(name)
        self._heard_s[key] = self._now_s
        if self._story.flaw is Flaw.RETURNS_DIFFERENCES:
            ask = replace(ask, returned=self._holdings[key].returned + ask.returned)
        if self._story.flaw is Flaw.RECLAIMS_BY_CLOCK:
            self._reclaim(window)
        self.figures["transactions"] += 1
        self._pools[window], self._holdings[key], answer = grant(
            self._pools[window], self._holdings[key], ask, replicas=len(self._known[window])
        )
        assert self._pools[window].outstanding <= self._story.limit
        for _ in range(self._copies(replica)):
            self._after(
                self._delay_s(), lambda: self._answered(replica, life, window, answer, said_s)
            )

    def _reclaim(self, window: int) -> None:
        for name in self._known[window]:
            holding = self._holdings[window, name]
            silent_s = self._now_s - self._heard_s[window, name]
            if silent_s > 3 * BEAT_S:
                left = holding.granted - holding.returned - holding.spent
                self._holdings[window, name] = replace(
                    holding, returned=holding.returned + max(0, left)
                )
                pool = self._pools[window]
                self._pools[window] = replace(pool, outstanding=pool.outstanding - max(0, left))

    def _told_the_time(self, replica: Replica, window: int, said_s: float) -> None:
        """Go by the authority's clock from now on; what waits does so in the present window."""
        if self._now_s < replica.stopped_until_s:
            return
        replica.skew_s = said_s - self._now_s
        present = self._window(replica)
        if window > present and (waiting := replica.waiting.pop(window, [])):
            replica.waiting.setdefault(present, []).extend(waiting)
            self._say(replica, present)

    def _answered(
        self, replica: Replica, life: int, window: int, answer: Grant, said_s: float
    ) -> None:
        if replica.life != life or self._now_s < replica.stopped_until_s:
            return
        replica.skew_s = said_s - self._now_s
        replica.shares[window] = replica.shares.get(window, Share()).after(answer)
        waiting = replica.waiting.get(window, [])
        replica.waiting[window] = [
            one for one in waiting if not self._admit(replica, window, one[1])
        ]
        if answer.is_short:
            free = replica.shares[window].free
            if free > 0 and not replica.waiting[window]:
                self._say(replica, window, keeps=0)
        elif replica.waiting[window]:
            self._after(RETRY_S, lambda: self._try_again(replica, life, window))

    def _try_again(self, replica: Replica, life: int, window: int) -> None:
        if replica.life == life and replica.waiting.get(window):
            self._say(replica, window)

    # What goes wrong.

    def _cut_off(self, replica: Replica) -> None:
        replica.cut_until_s = self._now_s + self._random.uniform(1, 60)
        self.figures["cut off"] += 1

    def _pause(self, replica: Replica) -> None:
        replica.stopped_until_s = self._now_s + self._random.uniform(0.1, 30)
        self.figures["paused"] += 1

    def _crash(self, replica: Replica) -> None:
        """Die in the middle of calls; come back with the books, else under another name."""
        self.figures["crashed"] += 1
        replica.life += 1
        replica.stopped_until_s = self._now_s + self._random.uniform(1, 30)
        replica.waiting.clear()
        # The clock that it finds is its machine's.
        replica.skew_s = self._random.uniform(-1, 1) * self._story.trouble.skew_s
        has_books = self._random.random() >= self._story.trouble.books_lost
        for window, share in replica.shares.items():
            # What was on its way may have been spent: it is charged as held.
            replica.shares[window] = replace(share, held=0, spent=share.spent + share.held)
        replica.running.clear()
        if not has_books:
            self.figures["books lost"] += 1
            replica.shares.clear()
            if self._story.flaw is not Flaw.KEEPS_ITS_NAME:
                replica.name = f"{replica.name.partition('.')[0]}.{replica.life}"
