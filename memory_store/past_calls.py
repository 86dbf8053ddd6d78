"""Calls of the past as a replay needs them: what was asked for, what it held, what it cost."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select

from governor.amounts import Amounts, Unit
from governor.call import CallStatus
from governor.ids import CallId, PrincipalId, SessionId, TenantId, TurnId
from governor.preview import PastCall
from governor.scope import DEPTH_MAX, ScopeChain
from governor.target import CallKind, CallTarget
from memory_store.freezing import below
from memory_store.paging import Page, cursor_of, key_of
from memory_store.reader import Reader
from memory_store.rows import amounts_of
from memory_store.tables import calls, reservations, sessions

# One read takes some ten milliseconds for so many.
READ_AT_ONCE = 2_000
# How the rule of a model call's record begins, before the tier's name.
_TIER = "tier "

_COLUMNS = (
    calls.c.call_id,
    calls.c.kind,
    calls.c.name,
    calls.c.tenant,
    calls.c.agent,
    calls.c.session,
    calls.c.turn,
    calls.c.status,
    calls.c.started_at_ms,
    calls.c.ended_at_ms,
    calls.c.backend,
    calls.c.rule,
    calls.c.estimate,
    calls.c.unmeasured,
    # How the call was admitted is known for as long as its hold is kept.
    reservations.c.name.label("held_name"),
    reservations.c.upstream.label("held_upstream"),
    reservations.c.tier.label("held_tier"),
    reservations.c.created_at_ms.label("held_at_ms"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Whose calls are wanted; a session's are those of all below it as well."""

    tenant: TenantId
    agent: PrincipalId | None = None
    session: SessionId | None = None


class PastCalls:
    """Reads the calls that ended, by when they did."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    async def first_ended_at_ms(self, tenant: TenantId) -> int | None:
        """Return when the first call of a tenant ended that there is a record of."""
        query = select(func.min(calls.c.ended_at_ms)).where(calls.c.tenant == tenant)
        return await self._reader.run(lambda connection: connection.scalar(query))

    async def page(
        self,
        whose: Whose,
        *,
        since_ms: int,
        units: Collection[Unit],
        cursor: str | None = None,
        oldest_first: bool = False,
    ) -> Page[PastCall]:
        """Return calls that ended since then, with what they held and cost in `units`.

        The last one comes first, or the first one.
        """
        order = _oldest_first if oldest_first else _latest_first

        def read(connection: Connection) -> Page[PastCall]:
            query = order(_query(connection, whose, since_ms, units), cursor)
            rows = connection.execute(query).all()
            follows = len(rows) > READ_AT_ONCE
            shown = rows[:READ_AT_ONCE]
            above = _ancestors(connection, {SessionId(row.session) for row in shown})
            last = cursor_of((shown[-1].ended_at_ms, shown[-1].call_id)) if follows else None
            return Page(items=tuple(_past(row, units, above) for row in shown), next=last)

        return await self._reader.run(read)


def _query(
    connection: Connection,
    whose: Whose,
    since_ms: int,
    units: Iterable[Unit],
) -> Select[Any]:
    query = (
        select(*_COLUMNS, *(calls.c[unit.value] for unit in units))
        .outerjoin(reservations, reservations.c.call_id == calls.c.call_id)
        .where(
            calls.c.tenant == whose.tenant,
            calls.c.ended_at_ms >= since_ms,
            # The calls below a carve are here themselves; it is not a call of its own.
            calls.c.kind != CallKind.SUB_SESSION.value,
        )
        .limit(READ_AT_ONCE + 1)
    )
    if whose.agent is not None:
        query = query.where(calls.c.agent == whose.agent)
    if whose.session is not None:
        query = query.where(calls.c.session.in_(below(connection, whose.session)))
    return query


def _latest_first(query: Select[Any], cursor: str | None) -> Select[Any]:
    query = query.order_by(calls.c.ended_at_ms.desc(), calls.c.call_id.desc())
    if cursor is None:
        return query
    ended_at_ms, call_id = key_of(cursor, kinds=(int, str))
    is_next = (calls.c.ended_at_ms == ended_at_ms) & (calls.c.call_id < call_id)
    return query.where((calls.c.ended_at_ms < ended_at_ms) | is_next)


def _oldest_first(query: Select[Any], cursor: str | None) -> Select[Any]:
    query = query.order_by(calls.c.ended_at_ms, calls.c.call_id)
    if cursor is None:
        return query
    ended_at_ms, call_id = key_of(cursor, kinds=(int, str))
    is_next = (calls.c.ended_at_ms == ended_at_ms) & (calls.c.call_id > call_id)
    return query.where((calls.c.ended_at_ms > ended_at_ms) | is_next)


def _ancestors(
    connection: Connection, wanted: Collection[SessionId]
) -> Mapping[SessionId, tuple[SessionId, ...]]:
    """Return those above each session that has any, the topmost first."""
    parents: dict[SessionId, SessionId] = {}
    level = set(wanted)
    for _ in range(DEPTH_MAX):
        rows = connection.execute(
            select(sessions.c.session_id, sessions.c.parent).where(
                sessions.c.session_id.in_(level), sessions.c.parent.is_not(None)
            )
        ).all()
        found = {SessionId(row.session_id): SessionId(row.parent) for row in rows}
        parents |= found
        level = set(found.values()) - parents.keys()
        if not level:
            break
    return {session: _chain(session, parents) for session in wanted if session in parents}


def _chain(session: SessionId, parents: Mapping[SessionId, SessionId]) -> tuple[SessionId, ...]:
    above: list[SessionId] = []
    while session in parents and len(above) < DEPTH_MAX:
        session = parents[session]
        above.insert(0, session)
    return tuple(above)


def _past(
    row: Any, units: Iterable[Unit], above: Mapping[SessionId, Sequence[SessionId]]
) -> PastCall:
    estimate = amounts_of(row.estimate)
    session = SessionId(row.session)
    is_held = row.held_name is not None
    return PastCall(
        call_id=CallId(row.call_id),
        target=CallTarget(
            kind=CallKind(row.kind),
            name=row.held_name if is_held else row.name,
            upstream=row.held_upstream if is_held else row.backend,
            tier=row.held_tier if is_held else _tier_of(row.rule),
        ),
        chain=ScopeChain(
            tenant=TenantId(row.tenant),
            agent=PrincipalId(row.agent),
            session=session,
            ancestors=tuple(above.get(session, ())),
        ),
        turn=None if row.turn is None else TurnId(row.turn),
        started_at_ms=row.held_at_ms if is_held else row.started_at_ms,
        ended_at_ms=row.ended_at_ms,
        estimate=Amounts({unit: estimate.of(unit) for unit in units if unit in estimate}),
        charged=Amounts({unit: getattr(row, unit.value) for unit in units}),
        unmeasured=_unmeasured(row.unmeasured),
        was_denied=row.status == CallStatus.DENIED.value,
        is_free=not estimate.by_unit,
    )


def _tier_of(rule: str) -> str:
    """Return the tier of a model call that was never held, from the words of its record."""
    return rule.removeprefix(_TIER).partition(":")[0] if rule.startswith(_TIER) else ""


def _unmeasured(text: str | None) -> frozenset[Unit]:
    if text is None or text == "{}":
        return frozenset()
    return frozenset(map(Unit, json.loads(text)))
