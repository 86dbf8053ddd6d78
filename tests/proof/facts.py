"""What must hold of a ledger's books at every moment, whoever keeps them.

The rules know no database: `book_rows` reads the facts from one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple


class Key(NamedTuple):
    """An account."""

    budget_id: str
    subject: str
    unit: str
    window_start_ms: int


class Standing(NamedTuple):
    """How an account stands."""

    settled: int = 0
    reserved: int = 0
    overrun: int = 0

    def plus(self, settled: int, reserved: int, overrun: int = 0) -> "Standing":
        return Standing(self.settled + settled, self.reserved + reserved, self.overrun + overrun)


class Moved(NamedTuple):
    """What one entry of the journal books on one account."""

    key: Key
    freed: int
    charged: int


class Entry(NamedTuple):
    """One entry of the journal: `held`, or one of the endings."""

    kind: str
    reservation_id: str
    moves: tuple[Moved, ...]


class Hold(NamedTuple):
    """One reservation; `lines` are what it holds by itself, a sub-session's carve included."""

    reservation_id: str
    state: str
    expires_at_ms: int
    agent: str
    key: str | None
    is_carve: bool
    lines: tuple[tuple[Key, int], ...]

    @property
    def is_live(self) -> bool:
        return self.state in ("held", "forwarded")


@dataclass(kw_only=True)
class Facts:
    """The books at one moment; `entries` is None where no journal is kept.

    `has_no_fold` are accounts whose standing is no sum (a rate keeps an arrival time).
    """

    accounts: Mapping[Key, Standing]
    holds: Sequence[Hold]
    entries: Sequence[Entry] | None = None
    numbers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    broken_links: Sequence[str] = ()
    unrecorded: Sequence[str] = ()
    has_no_fold: frozenset[Key] = frozenset()
    parents: Mapping[str, str] = field(default_factory=dict)

    def standing(self, key: Key) -> Standing:
        return self.accounts.get(key, Standing())


def faults_of(facts: Facts, *, now_ms: int | None = None, sweep_ms: int = 0) -> list[str]:
    """Return every broken invariant in words; `now_ms` when the reaper has just been round."""
    faults = [*_reserved(facts), *_endings(facts), *_keys(facts)]
    if facts.entries is not None:
        faults += _folded(facts.accounts, facts.entries, facts.has_no_fold)
    faults += [f"the chain is broken at {place}" for place in facts.broken_links]
    faults += [f"{name} ended without a record" for name in facts.unrecorded]
    for tenant, numbers in facts.numbers.items():
        if list(numbers) != list(range(1, len(numbers) + 1)):
            faults.append(f"the journal of {tenant} has gaps")
    if now_ms is not None:
        faults += [
            f"{hold.reservation_id} is overdue since {hold.expires_at_ms}"
            for hold in facts.holds
            if hold.is_live and hold.expires_at_ms + sweep_ms < now_ms
        ]
    return faults


def level_faults(facts: Facts, levels: Sequence[str]) -> list[str]:
    """Return where the children of one level were charged more than their parent.

    `levels` are budgets without windows over the same units, the widest first.
    """
    faults = []
    for wide, narrow in pairwise(levels):
        below: Counter[tuple[str, str]] = Counter()
        for key, standing in facts.accounts.items():
            if key.budget_id == narrow:
                below[facts.parents[key.subject], key.unit] += standing.settled
        for (parent, unit), settled in below.items():
            above = facts.standing(Key(wide, parent, unit, 0)).settled
            if settled > above:
                faults.append(f"{narrow} below {parent}: {settled} {unit}, above it {above}")
    return faults


def check(facts: Facts, *, now_ms: int | None = None, levels: Sequence[str] = ()) -> None:
    """Assert every invariant."""
    faults = [*faults_of(facts, now_ms=now_ms), *level_faults(facts, levels)]
    assert not faults, "\n".join(faults[:20])


def _reserved(facts: Facts) -> Iterable[str]:
    """An account's reserved is what the live holds say; of a carve, at most what is left."""
    own: Counter[Key] = Counter()
    carved: Counter[Key] = Counter()
    for hold in facts.holds:
        if hold.is_live:
            for key, amount in hold.lines:
                (carved if hold.is_carve else own)[key] += amount
    for key in facts.accounts.keys() | own.keys():
        reserved = facts.standing(key).reserved
        if not own[key] <= reserved <= own[key] + carved[key]:
            yield f"{key}: reserved is {reserved}, the live holds say {own[key]}+{carved[key]}"


def _folded(
    accounts: Mapping[Key, Standing], entries: Iterable[Entry], apart: frozenset[Key]
) -> Iterable[str]:
    fold: dict[Key, Standing] = defaultdict(Standing)
    for entry in entries:
        for key, freed, charged in entry.moves:
            if entry.kind == "held":
                fold[key] = fold[key].plus(0, freed)
            elif entry.kind == "given_back":
                fold[key] = fold[key].plus(0, -freed)
            else:
                fold[key] = fold[key].plus(charged, -freed, max(0, charged - freed))
    for key in accounts.keys() | fold.keys():
        stored = accounts.get(key, Standing())
        if key not in apart and stored != fold[key]:
            yield f"{key}: stored {tuple(stored)}, the fold is {tuple(fold[key])}"


def _endings(facts: Facts) -> Iterable[str]:
    """Each reservation is held once and ended at most once, as its state says."""
    if facts.entries is None:
        return
    held = Counter(entry.reservation_id for entry in facts.entries if entry.kind == "held")
    ended: dict[str, list[str]] = defaultdict(list)
    for entry in facts.entries:
        if entry.kind != "held":
            ended[entry.reservation_id].append(entry.kind)
    known = {hold.reservation_id for hold in facts.holds}
    for hold in facts.holds:
        name = hold.reservation_id
        said = ended.get(name, [])
        wanted = [] if hold.is_live else ["given_back" if hold.is_carve else hold.state]
        if held[name] != 1 or said != wanted:
            yield f"{name} is {hold.state}; it was held {held[name]} times and ended {said}"
    for name in held.keys() | ended.keys():
        if name not in known:
            yield f"{name} is booked and there is no such reservation"


def _keys(facts: Facts) -> Iterable[str]:
    """No key of a client names two reservations."""
    used = Counter((hold.agent, hold.key) for hold in facts.holds if hold.key is not None)
    return [f"the key {key} names {times} reservations" for key, times in used.items() if times > 1]
