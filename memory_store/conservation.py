"""Whether the books add up, found out while they are in use.

Four things hold at every commit: the chain of the journal is intact, each balance is the
fold of the journal, what an account has reserved is what its live holds say, and nothing
below a carve holds or uses more than was carved out.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, select

from governor.account import Booking
from memory_store import line_text
from memory_store.engine import is_shared
from memory_store.fold import Amounts, Fold
from memory_store.journal import NO_HASH, chained
from memory_store.tables import balances, journal, reservations, sessions, turns_taken

_ROWS_AT_ONCE = 5_000
# A row of the journal is all that one transaction booked: some ten kilobytes under load.
_JOURNAL_ROWS_AT_ONCE = 200
_IDS_AT_ONCE = 500
# One that is wrong is enough to stop; the rest is for whoever looks.
_BREACHES_MAX = 20


@dataclass(slots=True)
class _Walk:
    """A way along the journal: the last row, and the number and hash of each tenant's last."""

    seq: int = 0
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)

    def rows(self, connection: Connection) -> list[Row[Any]]:
        """Return some of the rows that follow, none at the end."""
        some = select(journal).limit(_JOURNAL_ROWS_AT_ONCE)
        if not is_shared(connection):
            newer = some.where(journal.c.seq > self.seq).order_by(journal.c.seq)
            return list(connection.execute(newer))
        # A row may be numbered before one of another tenant and be stored after it.
        rows: list[Row[Any]] = []
        for tenant in connection.scalars(select(turns_taken.c.tenant)).all():
            number, _ = self.heads.get(tenant, (0, NO_HASH))
            of_tenant = some.where(journal.c.tenant == tenant, journal.c.number > number)
            rows += connection.execute(of_tenant.order_by(journal.c.number))
            if len(rows) >= _JOURNAL_ROWS_AT_ONCE:
                break
        return rows

    def over(self, row: Row[Any]) -> Iterator[str]:
        """Go over the next row, and say if it does not follow."""
        number, before = self.heads.get(row.tenant, (0, NO_HASH))
        expected = chained(before, row.tenant, number + 1, row.at_ms, row.entries)
        if (row.number, row.hash) != (number + 1, expected):
            yield f"journal: row {row.seq} of {row.tenant} breaks the chain"
        self.heads[row.tenant] = (row.number, row.hash)
        self.seq = row.seq


@dataclass(slots=True)
class Conservation:
    """Folds the journal from where it left off, and compares.

    Of each account it keeps 24 bytes, and of each tenant the last hash. Accounts that
    were booked to since the last time are compared each time, all others in turn; and so the
    chain is followed where it is new, and what was followed is looked through again in turn.
    """

    _after: int = 0
    _ahead: _Walk = field(default_factory=_Walk)
    _again: _Walk = field(default_factory=_Walk)
    _fold: Fold = field(default_factory=Fold)

    def breaches(self, connection: Connection) -> list[str]:
        """Return what does not add up, in words; `connection` reads as of one instant."""
        touched: set[int] = set()
        found = [*self._follow(connection, touched), *self._look_again(connection)]
        held = held_amounts(connection)
        stored = self._in_turn(connection)
        for part in batched(sorted((touched | held.keys()) - stored.keys()), _IDS_AT_ONCE):
            stored |= stored_amounts(connection, balances.c.account_id.in_(part))
        for account, amounts in stored.items():
            folded = self._fold.of(account)
            if amounts != folded:
                found.append(f"account {account} stands at {amounts}, its journal at {folded}")
            if amounts[1] != held.get(account, 0):
                found.append(
                    f"account {account} has {amounts[1]} reserved, its live holds "
                    f"{held.get(account, 0)}"
                )
        found += _carves_overdrawn(connection)
        return found[:_BREACHES_MAX]

    def _in_turn(self, connection: Connection) -> dict[int, Amounts]:
        """Return the next accounts in the order of their numbers, from the first after the last."""
        rows = stored_amounts(
            connection,
            balances.c.account_id > self._after,
            limit=_ROWS_AT_ONCE,
        )
        self._after = max(rows) if len(rows) == _ROWS_AT_ONCE else 0
        return rows

    def _follow(self, connection: Connection, touched: set[int]) -> Iterator[str]:
        """Fold the rows that are new, and yield where the chain is broken."""
        while rows := self._ahead.rows(connection):
            for row in rows:
                yield from self._ahead.over(row)
                for entry in row.entries.split("\n"):
                    try:
                        touched.update(self._fold.enter(entry))
                    except OverflowError:
                        yield f"journal: row {row.seq} of {row.tenant} books beyond all measure"

    def _look_again(self, connection: Connection) -> Iterator[str]:
        """Yield where some rows that were followed before are no longer what they were."""
        rows = self._again.rows(connection)
        for row in rows:
            yield from self._again.over(row)
        if not rows:
            for tenant, head in self._ahead.heads.items():
                if self._again.heads.get(tenant) != head:
                    yield f"journal: the last rows of {tenant} are gone"
            self._again = _Walk()


def stored_amounts(
    connection: Connection, *of: ColumnElement[bool], limit: int | None = None
) -> dict[int, Amounts]:
    """Return what the balances say, account by account; rates, which do not add up, left out."""
    rows = connection.execute(
        select(balances.c.account_id, balances.c.settled, balances.c.reserved, balances.c.overrun)
        .where(balances.c.window_start_ms >= 0, *of)
        .order_by(balances.c.account_id)
        .limit(limit)
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


def batched(ids: list[int], size: int) -> Iterator[list[int]]:
    """Yield `ids` in parts that one statement takes."""
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def _carves_overdrawn(connection: Connection) -> Iterator[str]:
    """Yield each open carve whose hold is below nothing: more was drawn than was carved out."""
    rows = connection.execute(
        select(sessions.c.session_id, reservations.c.lines)
        .join(reservations, reservations.c.reservation_id == sessions.c.carve_reservation)
        .where(sessions.c.closed_at_ms.is_(None))
    )
    for session_id, text in rows:
        if any(line.amount < 0 for line in line_text.read(text)):
            yield f"carve: more was drawn from the sub-session {session_id} than it had"
