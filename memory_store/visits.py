"""Visits: browsers that have signed in to the console, at whichever sidecar of a database."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from governor.ids import TenantId
from memory_store.advisory import Duty, in_turn
from memory_store.reader import Reader
from memory_store.tables import metadata
from memory_store.writer import Writer

# Whoever signs in holds an administrator's token, so there are few.
VISITS_MAX = 256

console_visits = Table(
    "console_visits",
    metadata,
    # Only the SHA-256 of the cookie, as of a token.
    Column("visit_key", Text, primary_key=True),
    Column("secret_hash", Text, nullable=False),
    Column("begun_at_ms", BigInteger, nullable=False),
    Column("seen_at_ms", BigInteger, nullable=False),
    Column("tenant", Text),
    Column("notice", Text),
    sqlite_with_rowid=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptVisit:
    """A visit as it is stored.

    Of the cookie and of the administrator's token only hashes are kept. `tenant` is whose things
    are shown, None for everybody's; `notice` is what was done and is still to be said.
    """

    visit_key: str
    secret_hash: str
    begun_at_ms: int
    seen_at_ms: int
    tenant: TenantId | None = None
    notice: str | None = None


class VisitBook:
    """Keeps visits, bounded in number; how long one lasts is for whoever asks to say."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def begin(self, visit: KeptVisit, *, begun_since_ms: int, seen_since_ms: int) -> None:
        """Store a new visit; those that began or were seen before go, and the oldest of too many.

        Raises:
            StoreUnavailableError: the database refused.
            StoreOverloadedError: too much waits to be written.
        """
        table = console_visits.c
        ended = delete(console_visits).where(
            (table.begun_at_ms < begun_since_ms) | (table.seen_at_ms < seen_since_ms)
        )
        row = {
            "visit_key": visit.visit_key,
            "secret_hash": visit.secret_hash,
            "begun_at_ms": visit.begun_at_ms,
            "seen_at_ms": visit.seen_at_ms,
            "tenant": visit.tenant,
            "notice": visit.notice,
        }

        def work(connection: Connection) -> None:
            connection.execute(ended).close()
            _make_room(connection)
            connection.execute(insert(console_visits), row).close()

        # One at a time, so that no two make the same room.
        await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    async def find(self, visit_key: str) -> KeptVisit | None:
        """Return the visit as it is now, None where there is none."""
        query = select(console_visits).where(console_visits.c.visit_key == visit_key)
        row = await self._reader.run(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else _kept(row)

    async def see(self, visit_key: str, *, at_ms: int) -> None:
        """Note that somebody was there."""
        await self._change(visit_key, seen_at_ms=at_ms)

    async def show(self, visit_key: str, tenant: TenantId | None) -> None:
        """Show the things of one tenant from now on, or everybody's."""
        await self._change(visit_key, tenant=tenant)

    async def tell(self, visit_key: str, notice: str) -> None:
        """Keep what was done, to be said on the next page."""
        await self._change(visit_key, notice=notice)

    async def take(self, visit_key: str, notice: str) -> bool:
        """Tell whether `notice` is still to be said; nobody is told so again."""
        table = console_visits.c
        taken = (
            update(console_visits)
            .where(table.visit_key == visit_key, table.notice == notice)
            .values(notice=None)
        )
        return bool(await self._writer.run(lambda connection: connection.execute(taken).rowcount))

    async def end(self, visit_key: str) -> None:
        """Know the visit no more, at any sidecar."""
        gone = delete(console_visits).where(console_visits.c.visit_key == visit_key)
        await self._writer.run(lambda connection: connection.execute(gone).close())

    async def _change(self, visit_key: str, **values: object) -> None:
        change = (
            update(console_visits).where(console_visits.c.visit_key == visit_key).values(**values)
        )
        await self._writer.run(lambda connection: connection.execute(change).close())


def _kept(row: Any) -> KeptVisit:
    return KeptVisit(**row._mapping)  # noqa: SLF001 - public, despite its name


def _make_room(connection: Connection) -> None:
    """Remove the oldest visits until one more fits."""
    table = console_visits.c
    count = connection.scalar(select(func.count()).select_from(console_visits)) or 0
    if count < VISITS_MAX:
        return
    oldest = (
        select(table.visit_key)
        .order_by(table.begun_at_ms, table.visit_key)
        .limit(count - VISITS_MAX + 1)
    )
    connection.execute(delete(console_visits).where(table.visit_key.in_(oldest))).close()
