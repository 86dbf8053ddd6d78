"""Productivity: what calls brought for what they cost, by session, agent, tool and task class.

A call is *useful* if it succeeded with a result that its session had not got from that tool before.
It is *redundant* if the session had made it before with the same arguments and the same result.
An *attempt* is a session whose outcome was reported; it is *solved* if that was a success.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    case,
    distinct,
    func,
    literal_column,
    or_,
    select,
)

from governor.ids import PrincipalId, SessionId, TaskClass, TenantId
from governor.turn_policy import DEFAULT_CLASS
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.tables import calls, sessions, turns
from memory_store.turn_tables import session_turns, turn_extensions

_IS_TOOL = calls.c.kind == "tool"
_RAN = _IS_TOOL & calls.c.status.not_in(("denied", "released"))
# A literal, not a parameter: PostgreSQL must see that what is grouped by is what is shown.
_CLASS: ColumnElement[str] = func.coalesce(
    session_turns.c.task_class, literal_column(f"'{DEFAULT_CLASS}'", Text)
)


class Grouping(StrEnum):
    """What the lines are about."""

    SESSION = "session"
    AGENT = "agent"
    TOOL = "tool"
    TASK_CLASS = "task_class"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What calls brought and what they cost; `attempts_cost_microusd` is the attempts' part."""

    sessions: int = 0
    tool_calls: int = 0
    useful_results: int = 0
    comparable_calls: int = 0
    redundant_calls: int = 0
    cost_microusd: int = 0
    cpu_ms: int = 0
    energy_mj: int = 0
    attempts: int = 0
    solved: int = 0
    attempts_cost_microusd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """What a line about a session says beside its figures."""

    session_id: SessionId
    tenant: TenantId
    agent: PrincipalId
    name: str
    task_class: TaskClass
    opened_at_ms: int
    closed_at_ms: int | None
    turns_used: int
    turns_limit: int | None
    is_solved: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductivityLine:
    """The figures of one key; `session` is there where the key is a session's."""

    key: str
    figures: Figures
    session: SessionFacts | None = None


class ProductivityBook:
    """Adds up call records; what retention has removed is not among them."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    async def page(
        self,
        by: Grouping,
        *,
        tenant: TenantId | None = None,
        agent: PrincipalId | None = None,
        since_ms: int | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[ProductivityLine]:
        """Return lines in the order of their keys; of sessions, the one opened last first."""
        limit = clamped(limit)
        wanted = [
            *([] if tenant is None else [calls.c.tenant == tenant]),
            *([] if agent is None else [calls.c.agent == agent]),
            *([] if since_ms is None else [calls.c.ended_at_ms >= since_ms]),
        ]
        if by is Grouping.SESSION:
            query = _sessions(tenant=tenant, agent=agent, cursor=cursor).limit(limit + 1)
            return await self._reader.run(
                lambda connection: _session_page(connection, query, wanted, limit=limit)
            )
        grouped = _grouped(by, wanted, cursor=cursor).limit(limit + 1)
        rows = await self._reader.run(lambda connection: connection.execute(grouped).all())
        return page_of(
            rows,
            limit=limit,
            item=lambda row: ProductivityLine(key=row.key, figures=_figures(row)),
            key=lambda row: (row.key,),
        )

    async def of_session(self, session_id: SessionId) -> Figures:
        """Return the figures of one session."""

        def read(connection: Connection) -> Figures:
            found = _figures_by_session(connection, [session_id], [])
            return found.get(session_id, Figures())

        return await self._reader.run(read)


def _columns() -> list[ColumnElement[Any]]:
    is_useful = _RAN & (calls.c.status == "ok")
    # The hashes hold the session already, the one of the arguments the tool as well.
    answer = case((is_useful, calls.c.name + ":" + calls.c.result_hash))
    print_ = case((_RAN, calls.c.arguments_hash + ":" + calls.c.result_hash))
    was_attempt = session_turns.c.is_solved.is_not(None)
    return [
        func.count(distinct(calls.c.session)).label("sessions"),
        func.count(case((_RAN, 1))).label("tool_calls"),
        func.count(distinct(answer)).label("useful_results"),
        func.count(print_).label("comparable_calls"),
        (func.count(print_) - func.count(distinct(print_))).label("redundant_calls"),
        func.sum(calls.c.cost_microusd).label("cost_microusd"),
        func.sum(calls.c.cpu_ms).label("cpu_ms"),
        func.sum(calls.c.energy_mj).label("energy_mj"),
        func.count(distinct(case((was_attempt, calls.c.session)))).label("attempts"),
        func.count(distinct(case((session_turns.c.is_solved, calls.c.session)))).label("solved"),
        func.sum(case((was_attempt, calls.c.cost_microusd), else_=0)).label(
            "attempts_cost_microusd"
        ),
    ]


def _grouped(by: Grouping, wanted: list[ColumnElement[bool]], *, cursor: str | None) -> Select[Any]:
    key: ColumnElement[str]
    match by:
        case Grouping.SESSION:
            key = calls.c.session
        case Grouping.AGENT:
            key = calls.c.agent
        case Grouping.TOOL:
            key = calls.c.name
            wanted = [*wanted, _IS_TOOL]
        case Grouping.TASK_CLASS:
            key = _CLASS
    if cursor is not None:
        (after,) = key_of(cursor, kinds=(str,))
        wanted = [*wanted, key > after]
    return (
        select(key.label("key"), *_columns())
        .select_from(calls)
        .join(session_turns, session_turns.c.session_id == calls.c.session, isouter=True)
        .where(*wanted)
        .group_by(key)
        .order_by(key)
    )


def _sessions(
    *, tenant: TenantId | None, agent: PrincipalId | None, cursor: str | None
) -> Select[Any]:
    used = (
        select(func.count())
        .select_from(turns)
        .where(turns.c.session_id == sessions.c.session_id)
        .scalar_subquery()
    )
    extended = (
        select(func.coalesce(func.sum(turn_extensions.c.turns), 0))
        .where(turn_extensions.c.session_id == sessions.c.session_id)
        .scalar_subquery()
    )
    query = (
        select(
            sessions,
            _CLASS.label("task_class"),
            used.label("turns_used"),
            (session_turns.c.base_turns + extended).label("turns_limit"),
            session_turns.c.is_solved,
        )
        .join(session_turns, session_turns.c.session_id == sessions.c.session_id, isouter=True)
        .order_by(sessions.c.opened_at_ms.desc(), sessions.c.session_id.desc())
    )
    if tenant is not None:
        query = query.where(sessions.c.tenant == tenant)
    if agent is not None:
        query = query.where(sessions.c.agent == agent)
    if cursor is not None:
        at_ms, session_id = key_of(cursor, kinds=(int, str))
        opened = sessions.c.opened_at_ms
        is_after = and_(opened == at_ms, sessions.c.session_id < session_id)
        query = query.where(or_(opened < at_ms, is_after))
    return query


def _session_page(
    connection: Connection, query: Select[Any], wanted: list[ColumnElement[bool]], *, limit: int
) -> Page[ProductivityLine]:
    rows = connection.execute(query).all()
    ids = [row.session_id for row in rows[:limit]]
    figures = _figures_by_session(connection, ids, wanted)

    def line(row: Any) -> ProductivityLine:
        return ProductivityLine(
            key=row.session_id,
            figures=figures.get(row.session_id, Figures()),
            session=_facts(row),
        )

    return page_of(rows, limit=limit, item=line, key=lambda row: (row.opened_at_ms, row.session_id))


def _figures_by_session(
    connection: Connection, ids: list[SessionId], wanted: list[ColumnElement[bool]]
) -> Mapping[str, Figures]:
    of_them = [*wanted, calls.c.session.in_(ids)]
    rows = connection.execute(_grouped(Grouping.SESSION, of_them, cursor=None))
    return {row.key: _figures(row) for row in rows}


def _figures(row: Any) -> Figures:
    return Figures(
        sessions=row.sessions,
        tool_calls=row.tool_calls,
        useful_results=row.useful_results,
        comparable_calls=row.comparable_calls,
        redundant_calls=row.redundant_calls,
        cost_microusd=int(row.cost_microusd),
        cpu_ms=int(row.cpu_ms),
        energy_mj=int(row.energy_mj),
        attempts=row.attempts,
        solved=row.solved,
        attempts_cost_microusd=int(row.attempts_cost_microusd),
    )


def _facts(row: Any) -> SessionFacts:
    return SessionFacts(
        session_id=SessionId(row.session_id),
        tenant=TenantId(row.tenant),
        agent=PrincipalId(row.agent),
        name=row.name,
        task_class=TaskClass(row.task_class),
        opened_at_ms=row.opened_at_ms,
        closed_at_ms=row.closed_at_ms,
        turns_used=row.turns_used,
        turns_limit=row.turns_limit,
        is_solved=row.is_solved,
    )
