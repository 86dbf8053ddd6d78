"""Whether the books add up, found out while they are in use.

Four things hold at every commit: the chain of the journal is intact, each balance is the
fold of the journal, what an account has reserved is what its live holds say, and nothing
below a carve holds or uses more than was carved out.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from governor.account import Booking
from governor.budget import RATE_WINDOW_MS
from memory_store import line_text
from memory_store.journal import NO_HASH, chained
from memory_store.tables import balances, journal, reservations, sessions

_ROWS_AT_ONCE = 5_000
# One that is wrong is enough to stop; the rest is for whoever looks.
_BREACHES_MAX = 20

Amounts = list[int]  # settled, reserved, overrun


@dataclass(slots=True)
class Conservation:
    """Folds the journal from where it left off, and compares.

    Of each account it keeps three numbers, and of each tenant the last hash.
    """

    _seq: int = 0
    _heads: dict[str, tuple[int, str]] = field(default_factory=dict)
    _fold: dict[int, Amounts] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))

    def breaches(self, connection: Connection) -> list[str]:
        """Return what does not add up, in words; `connection` reads as of one instant."""
        found = list(self._follow(connection))
        found += _balances_unlike(connection, self._fold)
        found += _reserved_unlike_holds(connection)
        found += _carves_overdrawn(connection)
        return found[:_BREACHES_MAX]

    def _follow(self, connection: Connection) -> Iterator[str]:
        """Fold the rows that are new, and yield where the chain is broken."""
        while True:
            rows = connection.execute(
                select(journal)
                .where(journal.c.seq > self._seq)
                .order_by(journal.c.seq)
                .limit(_ROWS_AT_ONCE)
            ).all()
            for row in rows:
                number, before = self._heads.get(row.tenant, (0, NO_HASH))
                expected = chained(before, row.tenant, number + 1, row.at_ms, row.entries)
                if (row.number, row.hash) != (number + 1, expected):
                    yield f"journal: row {row.seq} of {row.tenant} breaks the chain"
                self._heads[row.tenant] = (row.number, row.hash)
                self._seq = row.seq
                for entry in row.entries.split("\n"):
                    fold_entry(self._fold, entry)
            if len(rows) < _ROWS_AT_ONCE:
                return


def fold_entry(fold: dict[int, Amounts], entry: str) -> None:
    """Add one booking of the journal to `fold`, which has zeros for what is new."""
    kind, _, *parts = entry.split()
    match kind:
        case "opening":
            for part in parts:
                account, *amounts = map(int, part.split(":"))
                fold[account][:] = amounts
        case "held":
            for line in line_text.read(" ".join(parts)):
                if line.booking in (Booking.SPEND, Booking.SLOT):
                    fold[line.account][1] += line.amount
        case _:
            for charge in line_text.read_charges(parts):
                if charge.booking is Booking.RATE:
                    continue
                amounts = fold[charge.account]
                amounts[0] += charge.charged
                amounts[1] -= charge.held
                amounts[2] += max(0, charge.charged - charge.held)


def stored_amounts(connection: Connection) -> dict[int, Amounts]:
    """Return what the balances say, account by account; rates, which do not add up, left out."""
    rows = connection.execute(
        select(
            balances.c.account_id, balances.c.settled, balances.c.reserved, balances.c.overrun
        ).where(balances.c.window_start_ms != RATE_WINDOW_MS)
    )
    return {account: [settled, reserved, overrun] for account, settled, reserved, overrun in rows}


def held_amounts(connection: Connection) -> dict[int, int]:
    """Return what the live holds say is reserved, account by account."""
    held: dict[int, int] = defaultdict(int)
    rows = connection.scalars(
        select(reservations.c.lines).where(reservations.c.ended_at_ms.is_(None))
    )
    for text in rows:
        for line in line_text.read(text):
            if line.booking in (Booking.SPEND, Booking.SLOT):
                held[line.account] += line.amount
    return held


def _balances_unlike(connection: Connection, fold: dict[int, Amounts]) -> Iterator[str]:
    for account, stored in stored_amounts(connection).items():
        folded = fold.get(account, [0, 0, 0])
        if stored != folded:
            yield f"balance: account {account} stands at {stored}, its journal at {folded}"


def _reserved_unlike_holds(connection: Connection) -> Iterator[str]:
    held = held_amounts(connection)
    for account, (_, reserved, _) in stored_amounts(connection).items():
        if reserved != held.get(account, 0):
            yield (
                f"holds: account {account} has {reserved} reserved, its live holds "
                f"{held.get(account, 0)}"
            )


def _carves_overdrawn(connection: Connection) -> Iterator[str]:
    """Yield each hold of a carve that is below nothing: more was drawn than was carved out."""
    rows = connection.execute(
        select(sessions.c.session_id, reservations.c.lines).join(
            reservations, reservations.c.reservation_id == sessions.c.carve_reservation
        )
    )
    for session_id, text in rows:
        if any(line.amount < 0 for line in line_text.read(text)):
            yield f"carve: more was drawn from the sub-session {session_id} than it had"
