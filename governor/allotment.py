"""Allotments: how many replicas spend from one budget without asking for each call.

An authority (a row in the database that all share) grants each replica parts of a budget. A
replica admits calls within what it was granted, and says now and then what it has spent and what
it gives back. Every figure that is sent is a total since the replica began, and totals only grow.
So a message may be lost, doubled, late or out of order: the greater total is the later one.

What was granted counts as spent until it has come back. There is no time in it: a replica that
is silent is not taken to be dead, and what it holds is nobody else's until it says so itself. So
no pause, no partition and no clock can have a budget overrun:

    spent by a replica  <=  granted to it - given back by it          (the replica sees to it)
    given back, as the authority knows it  <=  given back              (a total only grows)
    sum of (granted - given back, as the authority knows it)  <=  limit    (the authority does)

The price is that what a dead replica held is lost to its window, which the size of grants bounds.
A replica that has lost its books, or was put back from a backup, begins anew under another name.
"""

from dataclasses import dataclass, replace

# A grant is at most this part of what is left, for each replica that is at work.
_SHARES_LEFT = 2
# With so much of the limit to grant again, replicas may keep reserves again.
_PART_AT_EASE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What the authority knows of one budget in one window."""

    limit: int
    outstanding: int = 0
    """Granted and not given back: what was spent, is held or lies with replicas."""
    is_short: bool = False
    """Whether a replica asked for more than could be granted; then none keeps a reserve."""

    @property
    def room(self) -> int:
        """Return what can still be granted; negative after the limit was lowered."""
        return self.limit - self.outstanding


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What the authority knows of one replica in a pool; all are totals."""

    granted: int = 0
    returned: int = 0
    spent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a replica says: totals, and how much more it could use.

    `needs` is for a call that waits, `wants` for that and for what is foreseen.
    """

    has: int
    returned: int
    spent: int
    needs: int = 0
    wants: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What the authority answers: all that was ever granted, and whether others are in need."""

    granted: int
    is_short: bool


def grant(pool: Pool, holding: Holding, ask: Ask, *, replicas: int) -> tuple[Pool, Holding, Grant]:
    """Return what becomes of the pool and of the holding, and the answer.

    Nothing more is granted to a replica that has not heard of the last grant yet: what it asks
    for may be what it was given.
    """
    returned = max(holding.returned, ask.returned)
    assert returned <= holding.granted, "a replica gave back what it never had"
    pool = replace(pool, outstanding=pool.outstanding - (returned - holding.returned))
    has_heard = ask.has == holding.granted
    more = _more(pool.room, ask, replicas=replicas) if has_heard else 0
    room = pool.room - more
    is_unmet = has_heard and more < ask.needs
    is_short = is_unmet or (pool.is_short and room < pool.limit // _PART_AT_EASE)
    pool = replace(pool, outstanding=pool.outstanding + more, is_short=is_short)
    holding = Holding(
        granted=holding.granted + more, returned=returned, spent=max(holding.spent, ask.spent)
    )
    return pool, holding, Grant(granted=holding.granted, is_short=is_short)


def _more(room: int, ask: Ask, *, replicas: int) -> int:
    """Return how much is granted: what a call waits for, more only while there is much."""
    if room < ask.needs or room <= 0:
        return 0
    share = room // (_SHARES_LEFT * max(1, replicas))
    return min(room, max(ask.needs, min(ask.wants, share)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a replica knows of its part of a budget in one window; it is stored before it acts."""

    has: int = 0
    returned: int = 0
    spent: int = 0
    held: int = 0

    @property
    def free(self) -> int:
        """Return what calls may be admitted for; negative after an overrun."""
        return self.has - self.returned - self.spent - self.held

    def admitted(self, amount: int) -> "Share | None":
        """Return the share with `amount` held, None where it is not enough."""
        return replace(self, held=self.held + amount) if amount <= self.free else None

    def settled(self, *, held: int, spent: int) -> "Share":
        """Return the share once a call that held so much has spent so much."""
        assert held <= self.held, "more is settled than is held"
        return replace(self, held=self.held - held, spent=self.spent + spent)

    def given_back(self, *, keeps: int) -> "Share":
        """Return the share without what is free beyond `keeps`; to be stored before it is said."""
        return replace(self, returned=self.returned + max(0, self.free - keeps))

    def after(self, answer: Grant) -> "Share":
        """Return the share once an answer was heard, whichever that is."""
        return replace(self, has=max(self.has, answer.granted))

    def ask(self, *, needs: int = 0, wants: int = 0) -> Ask:
        """Return what is said to the authority."""
        return Ask(has=self.has, returned=self.returned, spent=self.spent, needs=needs, wants=wants)
