"""Approvals: what people are asked before a call runs, and what they said."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, exists, select, update
from sqlalchemy.dialects.postgresql import insert

from governor.approval import (
    GIVEN_UP,
    LIVE_STATES,
    Approval,
    ApprovalEvent,
    ApprovalState,
    Asked,
    moved,
)
from governor.denial import Denied
from governor.errors import InvalidTransitionError
from governor.events import Reserved
from governor.ids import ApprovalId, TenantId
from governor.refusal import session_denied
from governor.reservation import Reservation, ReservationState
from memory_store import notice_rows
from memory_store.approval_rows import IS_LIVE, approval_of, approvals, columns_of
from memory_store.audit import Actor, note
from memory_store.engine import driver_of
from memory_store.errors import NotFoundError, StoreOverloadedError
from memory_store.freezing import state_of
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.tables import reservations, sessions
from memory_store.writer import Writer

# How often a question is looked for that another replica asks at the same time.
_TRIES_MAX = 3
_INSERT_UNASKED = (
    insert(approvals)
    .on_conflict_do_nothing(
        index_elements=["agent", "session", "tool", "arguments_hash"], index_where=IS_LIVE
    )
    .returning(approvals.c.approval_id)
)
# How many one transaction ends, so that nobody behind it waits for long.
ENDED_AT_ONCE = 128


class ApprovalBook:
    """Keeps each question and its one answer; a yes is used once.

    A question is asked about a hold, which is kept for it: `open` moves the hold's expiry.
    Ending the hold of a question that was given up is its asker's part, through the ledger.
    """

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def open(self, approval: Approval, *, hold_expires_at_ms: int) -> Approval:
        """Ask, and keep the hold until `hold_expires_at_ms`; return what is asked now.

        That is another approval, with a hold of its own, where the same question stands
        already: then nothing is stored.
        """
        return await self._writer.run(
            lambda connection: _open(connection, approval, hold_expires_at_ms)
        )

    async def find(self, asked: Asked, *, now_ms: int) -> Approval | None:
        """Return the question that stands, open or answered, None if there is none.

        A no stands as long as its question could have: whoever was told to come back for the
        answer finds it, and nobody is asked again meanwhile.
        """
        table = approvals.c
        in_time = table.expires_at_ms > now_ms
        live = select(approvals).where(_is(asked), in_time)
        refused = (
            select(approvals)
            .where(_asks(asked), table.state == ApprovalState.REJECTED.value, in_time)
            .order_by(table.created_at_ms.desc())
            .limit(1)
        )

        def read(connection: Connection) -> Any:
            row = connection.execute(live).one_or_none()
            return connection.execute(refused).one_or_none() if row is None else row

        row = await self._reader.run(read)
        return None if row is None else approval_of(row)

    async def get(self, approval_id: ApprovalId) -> Approval:
        """Return the approval.

        Raises:
            NotFoundError: there is none of that id.
        """
        return await self._reader.run(lambda connection: _get(connection, approval_id))

    async def page(
        self,
        *,
        tenant: TenantId | None = None,
        state: ApprovalState | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[Approval]:
        """Return approvals, the one asked for last first."""
        limit = clamped(limit)
        table = approvals.c
        query = (
            select(approvals)
            .order_by(table.created_at_ms.desc(), table.approval_id.desc())
            .limit(limit + 1)
        )
        if tenant is not None:
            query = query.where(table.tenant == tenant)
        if state is not None:
            query = query.where(table.state == state.value)
        if cursor is not None:
            created_at_ms, approval_id = key_of(cursor, kinds=(int, str))
            query = query.where(
                (table.created_at_ms < created_at_ms)
                | ((table.created_at_ms == created_at_ms) & (table.approval_id < approval_id))
            )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return page_of(
            rows,
            limit=limit,
            item=approval_of,
            key=lambda row: (row.created_at_ms, row.approval_id),
        )

    async def decide(
        self, approval_id: ApprovalId, event: ApprovalEvent, *, by: Actor, reason: str, now_ms: int
    ) -> Approval:
        """Store a person's answer; the first one stands.

        Raises:
            NotFoundError: there is no such approval.
            InvalidTransitionError: it was answered, used or given up before.
        """

        def work(connection: Connection) -> Approval:
            before = _get(connection, approval_id, is_to_move=True)
            after = moved(before, event, now_ms=now_ms, by=by.name, reason=reason)
            _store(connection, before, after, now_ms)
            note(
                connection,
                by=by,
                at_ms=now_ms,
                action=f"approval.{event}",
                target=approval_id,
                before={"state": before.state, "call_id": before.call_id, "tool": before.tool},
                after={"state": after.state, "reason": reason},
            )
            return after

        return await self._writer.run(work)

    async def take(
        self, approval_id: ApprovalId, *, now_ms: int, hold_expires_at_ms: int
    ) -> Reserved | Approval | Denied:
        """Use a yes and return its hold, or why there is none: how the question stands, a denial.

        From now on the hold is that of a call like any other: it ends with this process, else
        at `hold_expires_at_ms`. Two who take the same one at the same time are served one after
        the other, so only the first gets it. Its lines are the ledger's affair and are not read.
        """
        return await self._writer.run(
            lambda connection: _take(connection, approval_id, now_ms, hold_expires_at_ms)
        )

    async def withdraw(self, approval_id: ApprovalId, *, now_ms: int) -> Approval:
        """Give up a question that nobody has answered; return how it stands now."""

        def work(connection: Connection) -> Approval:
            before = _get(connection, approval_id, is_to_move=True)
            if before.state is not ApprovalState.PENDING:
                return before
            after = moved(before, ApprovalEvent.WITHDRAW, now_ms=now_ms)
            _store(connection, before, after, now_ms)
            return after

        return await self._writer.run(work, is_owed=True)

    async def expire_due(self, *, now_ms: int) -> int:
        """Give up what nobody answered or used in time, or whose session was closed."""

        def work(connection: Connection) -> int:
            due = connection.execute(
                select(approvals)
                .where(_is_live(), (approvals.c.expires_at_ms <= now_ms) | _has_no_session())
                .order_by(approvals.c.expires_at_ms)
                .limit(ENDED_AT_ONCE)
                .with_for_update(of=approvals)
            ).all()
            for row in due:
                before = approval_of(row)
                after = moved(before, ApprovalEvent.EXPIRE, now_ms=now_ms)
                _store(connection, before, after, now_ms)
            return len(due)

        total = 0
        while ended := await self._writer.run(work, is_owed=True):
            total += ended
        return total

    async def given_up_with_a_hold(self) -> tuple[Approval, ...]:
        """Return the questions that are over while the hold that was kept for them lives on."""
        query = (
            select(approvals)
            .join(reservations, reservations.c.reservation_id == approvals.c.reservation_id)
            .where(
                reservations.c.ended_at_ms.is_(None),
                approvals.c.state.in_([state.value for state in GIVEN_UP]),
            )
            .limit(ENDED_AT_ONCE)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(approval_of(row) for row in rows)


def _open(connection: Connection, approval: Approval, hold_expires_at_ms: int) -> Approval:
    standing = select(approvals).where(_is(approval.asked)).with_for_update()
    for _ in range(_TRIES_MAX):
        row = connection.execute(standing).one_or_none()
        if row is not None:
            known = approval_of(row)
            if not known.is_due(approval.created_at_ms):
                return known
            # Its time is over and nobody has noted it yet.
            expired = moved(known, ApprovalEvent.EXPIRE, now_ms=approval.created_at_ms)
            _store(connection, known, expired, approval.created_at_ms)
        # Another replica may ask the same meanwhile: then this waits until that is stored.
        if connection.scalar(_INSERT_UNASKED, columns_of(approval)) is not None:
            break
    else:
        # Each time another stood there, and was over before it could be read.
        raise StoreOverloadedError
    connection.execute(
        update(reservations)
        .where(reservations.c.reservation_id == approval.reservation_id)
        .values(expires_at_ms=hold_expires_at_ms)
    )
    _tell(connection, approval, approval.created_at_ms)
    return approval


def _take(
    connection: Connection, approval_id: ApprovalId, now_ms: int, hold_expires_at_ms: int
) -> Reserved | Approval | Denied:
    before = _get(connection, approval_id, is_to_move=True)
    denied = session_denied(state_of(connection, before.chain.session))
    if denied is not None:
        return denied
    of_hold = reservations.c.reservation_id == before.reservation_id
    state = connection.scalar(select(reservations.c.state).where(of_hold))
    try:
        after = moved(before, ApprovalEvent.USE, now_ms=now_ms)
    except InvalidTransitionError:
        return before
    if state != ReservationState.HELD:
        # Its hold was ended by time; there is nothing left to run on.
        after = moved(before, ApprovalEvent.EXPIRE, now_ms=now_ms)
        _store(connection, before, after, now_ms)
        return after
    _store(connection, before, after, now_ms)
    connection.execute(
        update(reservations)
        .where(of_hold)
        .values(outlives_process=False, expires_at_ms=hold_expires_at_ms)
    )
    reservation = Reservation(
        reservation_id=before.reservation_id,
        call_id=before.call_id,
        chain=before.chain,
        state=ReservationState.HELD,
        postings=(),
        held=(),
        expires_at_ms=hold_expires_at_ms,
    )
    return Reserved(reservation=reservation, amount=before.estimate)


def _store(connection: Connection, before: Approval, after: Approval, now_ms: int) -> None:
    """Store what became of `before`, unless another was faster, with a notice if it is over.

    Raises:
        InvalidTransitionError: another was.
    """
    changed = connection.execute(
        update(approvals)
        .where(
            approvals.c.approval_id == before.approval_id, approvals.c.state == before.state.value
        )
        .values(
            state=after.state.value,
            decided_at_ms=after.decided_at_ms,
            decided_by=after.decided_by,
            reason=after.reason,
        )
    ).rowcount
    if not changed:
        message = f"an approval that was {before.state} has been answered meanwhile"
        raise InvalidTransitionError(message)
    # That a yes was used is no news: the call's own record says how it went.
    if after.state is not ApprovalState.USED:
        _tell(connection, after, now_ms)


def _tell(connection: Connection, approval: Approval, now_ms: int) -> None:
    """Store a notice of how an approval stands now."""
    row = notice_rows.asked(approval, now_ms=now_ms)
    notice_rows.insert_notices(driver_of(connection), [row])


def _get(connection: Connection, approval_id: ApprovalId, *, is_to_move: bool = False) -> Approval:
    """Return the approval; of two replicas that are to move it, the second sees it moved."""
    query = select(approvals).where(approvals.c.approval_id == approval_id)
    row = connection.execute(query.with_for_update() if is_to_move else query).one_or_none()
    if row is None:
        message = f"there is no approval {approval_id}"
        raise NotFoundError(message)
    return approval_of(row)


def _is_live() -> ColumnElement[bool]:
    return approvals.c.state.in_([state.value for state in LIVE_STATES])


def _is(asked: Asked) -> ColumnElement[bool]:
    """Tell of a live approval whether it is this question's."""
    return _is_live() & _asks(asked)


def _asks(asked: Asked) -> ColumnElement[bool]:
    table = approvals.c
    return (
        (table.agent == asked.agent)
        & (table.session == asked.session)
        & (table.tool == asked.tool)
        & (table.arguments_hash == asked.arguments_hash)
    )


def _has_no_session() -> ColumnElement[bool]:
    return exists().where(
        sessions.c.session_id == approvals.c.session, sessions.c.closed_at_ms.is_not(None)
    )
