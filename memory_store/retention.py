"""Retention: removes what is older than the house keeps records, a little at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import ColumnElement, Connection, bindparam, delete, exists, or_, select, tuple_

from memory_store.advisory import Duty, is_free
from memory_store.approval_rows import approvals
from memory_store.archive import Archive
from memory_store.experiences.keeping import ExperienceRetention
from memory_store.experiences.uses import remove_old as remove_old_uses
from memory_store.experiences.values import KeepRule
from memory_store.flows import remove_old_flows
from memory_store.notices import remove_old_notices
from memory_store.reader import Reader
from memory_store.tables import calls, reservations, sessions, turns
from memory_store.writer import Writer

# How many calls or turns one transaction removes, so that nobody behind it waits for long.
REMOVED_AT_ONCE = 128
# No file is taken for an orphan by its age alone, but what is deleted does not come back:
# this much doubt is in its favour.
ORPHAN_GRACE_MS = 60 * 60 * 1000

_Turn = tuple[str, str]

# A call goes together with its reservation, which must have ended as long ago.
_OLD_CALLS = (
    select(calls.c.call_id)
    .outerjoin(reservations, reservations.c.call_id == calls.c.call_id)
    .where(
        calls.c.ended_at_ms < bindparam("before_ms"),
        reservations.c.reservation_id.is_(None)
        | (reservations.c.ended_at_ms < bindparam("before_ms")),
    )
    .order_by(calls.c.ended_at_ms)
    .limit(REMOVED_AT_ONCE)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """How much was removed: calls, turns, archive entries, experiences, and files without a row."""

    calls: int
    turns: int
    archives: int
    orphans: int
    experiences: int = 0


class Retention:
    """Removes old calls, what was held for them, old turns and old archive entries.

    Events and balances stay, because a balance is the fold of its events; so do sessions,
    which stay closed, and the audit log. Of sidecars that share a database one does it at a
    time; the others find nothing to do.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        reader: Reader,
        archive: Archive,
        experiences: ExperienceRetention,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._archive = archive
        self._experiences = experiences

    async def purge(
        self, *, before_ms: int, now_ms: int, experiences: Sequence[KeepRule] = ()
    ) -> Purged:
        """Remove what ended before `before_ms` and return how much that was.

        Experiences go when they have run out, or by the rules for them; notes of their use go
        with the calls in which they were used.
        What is live is never touched. After an error, what was removed so far stays removed,
        and the next purge goes on from there.

        Raises:
            StoreUnavailableError: the disk or the database refused.
            StoreOverloadedError: too much waits to be written.
        """
        calls_removed = await self._remove_calls(before_ms)
        # After the calls: a turn stays for as long as the reservation that opened it.
        turns_removed = await self._remove_turns(before_ms)
        await self._remove_flows(before_ms)
        await self._remove_uses(before_ms)
        await self._remove_notices(before_ms)
        archives_removed = await self._archive.remove(before_ms=before_ms)
        orphans_removed = await self._archive.sweep(before_ms=now_ms - ORPHAN_GRACE_MS)
        expired = await self._experiences.purge(
            experiences, orphans_before_ms=now_ms - ORPHAN_GRACE_MS, now_ms=now_ms
        )
        return Purged(
            calls=calls_removed,
            turns=turns_removed,
            archives=archives_removed,
            orphans=orphans_removed + expired.orphans,
            experiences=expired.experiences,
        )

    async def _remove_calls(self, before_ms: int) -> int:
        work = partial(_remove_calls, before_ms=before_ms)
        total = 0
        while removed := await self._writer.run(work, may_be_dropped=True):
            total += removed
        return total

    async def _remove_notices(self, before_ms: int) -> None:
        """Remove old notices, whoever has not taken them; they count as nothing else."""

        def work(connection: Connection) -> int:
            if not is_free(connection, Duty.RETENTION):
                return 0
            return remove_old_notices(connection, before_ms=before_ms, limit=REMOVED_AT_ONCE)

        while await self._writer.run(work, may_be_dropped=True):
            """Until nothing is left."""

    async def _remove_flows(self, before_ms: int) -> None:
        """Remove what users said in sessions that are over; it counts as nothing else."""

        def work(connection: Connection) -> int:
            if not is_free(connection, Duty.RETENTION):
                return 0
            return remove_old_flows(connection, before_ms=before_ms)

        while await self._writer.run(work, may_be_dropped=True):
            """Some at a time, so that nobody behind it waits for long."""

    async def _remove_uses(self, before_ms: int) -> None:
        """Remove what was noted of the use of experiences; it counts as nothing else."""
        work = partial(remove_old_uses, before_ms=before_ms)
        while await self._writer.run(work, may_be_dropped=True):
            """Some at a time, so that nobody behind it waits for long."""

    async def _remove_turns(self, before_ms: int) -> int:
        # No index leads to them, so they are looked for beside the writer, page by page.
        total = 0
        page = await self._old_turns(before_ms, after=("", ""))
        while page:
            work = partial(_remove_turns, page=page, before_ms=before_ms)
            total += await self._writer.run(work, may_be_dropped=True)
            page = await self._old_turns(before_ms, after=page[-1])
        return total

    async def _old_turns(self, before_ms: int, *, after: _Turn) -> list[_Turn]:
        query = (
            select(turns.c.session_id, turns.c.turn)
            .where(tuple_(turns.c.session_id, turns.c.turn) > after, _is_over(before_ms))
            .order_by(turns.c.session_id, turns.c.turn)
            .limit(REMOVED_AT_ONCE)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return [(row.session_id, row.turn) for row in rows]


def _remove_calls(connection: Connection, *, before_ms: int) -> int:
    if not is_free(connection, Duty.RETENTION):
        return 0
    ids = connection.execute(_OLD_CALLS, {"before_ms": before_ms}).scalars().all()
    if not ids:
        return 0
    connection.execute(delete(approvals).where(approvals.c.call_id.in_(ids)))
    connection.execute(delete(reservations).where(reservations.c.call_id.in_(ids)))
    connection.execute(delete(calls).where(calls.c.call_id.in_(ids)))
    return len(ids)


def _remove_turns(connection: Connection, *, page: Sequence[_Turn], before_ms: int) -> int:
    if not is_free(connection, Duty.RETENTION):
        return 0
    # Asked again, because a session may have come back since the page was read. One by one,
    # because SQLite answers a list of pairs by going through the whole table.
    is_this = (turns.c.session_id == bindparam("of_session")) & (turns.c.turn == bindparam("named"))
    return connection.execute(
        delete(turns).where(is_this, _is_over(before_ms)),
        [{"of_session": session_id, "named": turn} for session_id, turn in page],
    ).rowcount


def _is_over(before_ms: int) -> ColumnElement[bool]:
    """Tell of a turn whether nobody can need to know that it was opened."""
    is_session_over = exists().where(
        sessions.c.session_id == turns.c.session_id,
        or_(sessions.c.last_seen_at_ms < before_ms, sessions.c.closed_at_ms < before_ms),
    )
    is_opener_kept = exists().where(reservations.c.reservation_id == turns.c.reservation_id)
    return is_session_over & ~is_opener_kept
