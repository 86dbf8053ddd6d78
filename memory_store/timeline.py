"""What happened in a session, in the order of time: calls, questions to people, changes by them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Label, func, select

from governor.approval import Approval, ApprovalState
from governor.ids import ApprovalId, CallId, SessionId, TurnId
from governor.target import CallKind
from memory_store.approval_rows import approval_of, approvals
from memory_store.audit import AuditEntry, audit_entry
from memory_store.calls import SHOWN, CallView, call_view
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.router_log import LoggedDecision, logged_decision
from memory_store.router_tables import router_decisions
from memory_store.tables import audit, calls, reservations, sessions

# How many calls that run, and how many sessions below, are told of.
BESIDE_MAX = 100
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One thing that happened; exactly one of the three is there.

    A call is told of when it ended; `decision` is why it went to its tier, where a router chose.
    """

    at_ms: int
    call: CallView | None = None
    decision: LoggedDecision | None = None
    approval: Approval | None = None
    change: AuditEntry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSum:
    """One turn of a session: the how-manieth it is, and what its calls came to so far."""

    turn: TurnId
    number: int
    calls: int
    denied: int
    cost_microusd: int
    started_at_ms: int
    ended_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A call that has not ended; `approval` is the question that it waits for, if it does."""

    call_id: CallId
    kind: CallKind
    name: str
    turn: TurnId | None
    started_at_ms: int
    approval: ApprovalId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A part of a session's timeline, and what is beside it."""

    moments: Page[Moment]
    turns: tuple[TurnSum, ...]
    running: tuple[Running, ...]
    children: tuple[SessionId, ...]


class TimelineBook:
    """Reads the timelines of sessions."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    async def page(
        self, session_id: SessionId, *, cursor: str | None = None, limit: int = 50
    ) -> Timeline:
        """Return what happened, the first first; what happens later comes behind the cursor.

        All that is beside it is as of the same instant. A session that was never seen has an
        empty one.

        Raises:
            InvalidCursorError: the cursor is not one of these.
        """
        limit = clamped(limit)
        place = None if cursor is None else _Place.of(cursor)

        def read(connection: Connection) -> Timeline:
            moments = _page(connection, session_id, place, limit)
            return Timeline(
                moments=moments,
                turns=_turns(connection, session_id, moments.items),
                running=_running(connection, session_id),
                children=_children(connection, session_id),
            )

        return await self._reader.run(read)

    async def running(self, session_id: SessionId) -> tuple[Running, ...]:
        """Return the calls of a session that have not ended, the first admitted first."""
        return await self._reader.run(lambda connection: _running(connection, session_id))


@dataclass(frozen=True, slots=True)
class _Place:
    """Behind what a page begins: a time, of which source the last one was, and its name there."""

    at_ms: int
    source: int
    name: str

    @classmethod
    def of(cls, cursor: str) -> "_Place":
        at_ms, source, name = key_of(cursor, kinds=(int, int, str))
        assert isinstance(at_ms, int), "checked by its kind"
        assert isinstance(source, int), "checked by its kind"
        return cls(at_ms, source, str(name))

    def is_before(
        self, source: int, at: ColumnElement[int], name: ColumnElement[Any], own: object
    ) -> ColumnElement[bool]:
        """Return what holds for rows of a source that come behind this place."""
        if source > self.source:
            return at >= self.at_ms
        if source < self.source:
            return at > self.at_ms
        return (at > self.at_ms) | ((at == self.at_ms) & (name > own))


_CALLS, _APPROVALS, _CHANGES = 0, 1, 2
_Found = tuple[int, int, str, Moment]


def _page(
    connection: Connection, session_id: SessionId, place: _Place | None, limit: int
) -> Page[Moment]:
    found = [
        *_calls(connection, session_id, place, limit + 1),
        *_approvals(connection, session_id, place, limit + 1),
        *_changes(connection, session_id, place, limit + 1),
    ]
    # Names of changes are numbers, which have an order of their own: each source is read in it.
    found.sort(key=lambda one: one[:2])
    return page_of(found, limit=limit, item=lambda one: one[3], key=lambda one: one[:3])


def _calls(
    connection: Connection, session_id: SessionId, place: _Place | None, limit: int
) -> list[_Found]:
    at, name = calls.c.ended_at_ms, calls.c.call_id
    query = select(*SHOWN).where(calls.c.session == session_id).order_by(at, name).limit(limit)
    if place is not None:
        query = query.where(place.is_before(_CALLS, at, name, place.name))
    views = [call_view(row) for row in connection.execute(query)]
    asked = [view.record.call_id for view in views if view.record.kind is CallKind.MODEL]
    chosen = _decisions(connection, asked)
    return [
        (
            view.record.ended_at_ms,
            _CALLS,
            view.record.call_id,
            Moment(
                at_ms=view.record.ended_at_ms,
                call=view,
                decision=chosen.get(view.record.call_id),
            ),
        )
        for view in views
    ]


def _decisions(connection: Connection, asked: Collection[CallId]) -> dict[CallId, LoggedDecision]:
    if not asked:
        return {}
    query = select(router_decisions).where(router_decisions.c.call_id.in_(asked))
    found = map(logged_decision, connection.execute(query))
    return {one.decision.call_id: one for one in found}


def _approvals(
    connection: Connection, session_id: SessionId, place: _Place | None, limit: int
) -> list[_Found]:
    at, name = approvals.c.created_at_ms, approvals.c.approval_id
    query = (
        select(approvals).where(approvals.c.session == session_id).order_by(at, name).limit(limit)
    )
    if place is not None:
        query = query.where(place.is_before(_APPROVALS, at, name, place.name))
    found = map(approval_of, connection.execute(query))
    return [
        (
            one.created_at_ms,
            _APPROVALS,
            one.approval_id,
            Moment(at_ms=one.created_at_ms, approval=one),
        )
        for one in found
    ]


def _changes(
    connection: Connection, session_id: SessionId, place: _Place | None, limit: int
) -> list[_Found]:
    at, name = audit.c.at_ms, audit.c.seq
    query = select(audit).where(audit.c.target == session_id).order_by(at, name).limit(limit)
    if place is not None:
        number = min(int(place.name), _INT64_MAX) if place.name.isdecimal() else 0
        query = query.where(place.is_before(_CHANGES, at, name, number))
    found = map(audit_entry, connection.execute(query))
    return [
        (one.at_ms, _CHANGES, str(one.seq), Moment(at_ms=one.at_ms, change=one)) for one in found
    ]


def _turns(
    connection: Connection, session_id: SessionId, moments: Sequence[Moment]
) -> tuple[TurnSum, ...]:
    """Return the turns that some moment belongs to, in their order."""
    named = {one.call.record.turn for one in moments if one.call is not None} | {
        one.approval.turn for one in moments if one.approval is not None
    }
    wanted = [turn for turn in named if turn is not None]
    if not wanted:
        return ()
    first = func.min(calls.c.started_at_ms)
    summed = (
        select(
            calls.c.turn,
            func.row_number().over(order_by=(first, calls.c.turn)).label("number"),
            func.count().label("calls"),
            func.count(calls.c.denial).label("denied"),
            _sum("cost_microusd"),
            first.label("started_at_ms"),
            func.max(calls.c.ended_at_ms).label("ended_at_ms"),
        )
        .where(calls.c.session == session_id, calls.c.turn.is_not(None))
        .group_by(calls.c.turn)
        .subquery()
    )
    query = select(summed).where(summed.c.turn.in_(wanted)).order_by(summed.c.number)
    return tuple(
        TurnSum(
            turn=TurnId(row.turn),
            number=row.number,
            calls=row.calls,
            denied=row.denied,
            cost_microusd=int(row.cost_microusd),
            started_at_ms=row.started_at_ms,
            ended_at_ms=row.ended_at_ms,
        )
        for row in connection.execute(query)
    )


def _sum(unit: str) -> Label[int]:
    return func.coalesce(func.sum(calls.c[unit]), 0).label(unit)


def _running(connection: Connection, session_id: SessionId) -> tuple[Running, ...]:
    query = (
        select(reservations, approvals.c.approval_id)
        .outerjoin(
            approvals,
            (approvals.c.reservation_id == reservations.c.reservation_id)
            & (approvals.c.state == ApprovalState.PENDING.value),
        )
        .where(
            reservations.c.ended_at_ms.is_(None),
            reservations.c.session == session_id,
            reservations.c.kind != CallKind.SUB_SESSION.value,
        )
        .order_by(reservations.c.created_at_ms)
        .limit(BESIDE_MAX)
    )
    return tuple(
        Running(
            call_id=CallId(row.call_id),
            kind=CallKind(row.kind),
            name=row.name,
            turn=None if row.turn is None else TurnId(row.turn),
            started_at_ms=row.created_at_ms,
            approval=None if row.approval_id is None else ApprovalId(row.approval_id),
        )
        for row in connection.execute(query)
    )


def _children(connection: Connection, session_id: SessionId) -> tuple[SessionId, ...]:
    query = (
        select(sessions.c.session_id)
        .where(sessions.c.parent == session_id)
        .order_by(sessions.c.opened_at_ms)
        .limit(BESIDE_MAX)
    )
    return tuple(map(SessionId, connection.scalars(query)))
