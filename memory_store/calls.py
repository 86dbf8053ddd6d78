"""Call records: one row for each call that ended, with what it was charged."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, case, cast, func, select

from governor.amounts import Amounts, Unit
from governor.call import CallRecord, CallStatus, Enforcement, Isolated
from governor.curve import Curve
from governor.denial import DenialReason
from governor.ids import ArchiveId, CallId, PrincipalId, SessionId, TenantId, TurnId
from governor.scope import ScopeChain
from governor.target import CallKind
from governor.usage import Usage
from memory_store.curve_rows import curve_of
from memory_store.errors import NotFoundError
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.rows import amounts_of
from memory_store.tables import calls
from memory_store.turns import About
from memory_store.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """A call as it ended, and what it was charged."""

    record: CallRecord
    charged: Amounts
    has_curve: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCurve:
    """How the memory and the processor time of a call went; `curve` is None where nobody looked."""

    call_id: CallId
    name: str
    started_at_ms: int
    ended_at_ms: int
    memory_peak_bytes: int | None
    isolated: Isolated | None
    curve: Curve | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a session was charged so far.

    `unmeasured` names the units of which at least one call could not be measured; their
    part of `charged` is what was held. `memory_peak_bytes` is None where nothing was measured.
    """

    session: SessionId
    charged: Amounts
    calls: Mapping[CallStatus, int]
    unmeasured: tuple[Unit, ...]
    memory_peak_bytes: int | None
    first_started_at_ms: int | None
    last_ended_at_ms: int | None

    @property
    def calls_total(self) -> int:
        """Return how many calls ended."""
        return sum(self.calls.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodCall:
    """A tool call that went well; `arguments` and `detail` are kept for the tools asked for."""

    tenant: TenantId
    session: SessionId
    name: str
    ended_at_ms: int
    arguments: str | None
    detail: str | None


# A curve is read where it is shown, by itself.
SHOWN = (
    *(column for column in calls.c if column is not calls.c.curve),
    calls.c.curve.is_not(None).label("has_curve"),
)
_OF_CURVES = (
    calls.c.name,
    calls.c.started_at_ms,
    calls.c.ended_at_ms,
    calls.c.memory_peak_bytes,
    calls.c.isolated,
    calls.c.curve,
)


class CallLog:
    """Reads call records and keeps those of calls that never held anything."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def record(self, record: CallRecord) -> None:
        """Keep the record of a call that was not admitted and so was charged nothing."""
        await self._writer.book(lambda book: book.record(record), about=About(), is_owed=True)

    async def get(self, call_id: CallId) -> CallView:
        """Return the call.

        Raises:
            NotFoundError: it has not ended, or never was.
        """
        return call_view(await self._row(select(*SHOWN).where(calls.c.call_id == call_id), call_id))

    async def curve(self, call_id: CallId) -> CallCurve:
        """Return how the call's memory and processor time went.

        Raises:
            NotFoundError: it has not ended, or never was.
        """
        query = select(*_OF_CURVES).where(calls.c.call_id == call_id)
        row = await self._row(query, call_id)
        return CallCurve(
            call_id=call_id,
            name=row.name,
            started_at_ms=row.started_at_ms,
            ended_at_ms=row.ended_at_ms,
            memory_peak_bytes=row.memory_peak_bytes,
            isolated=_isolated(row.isolated),
            curve=None if row.curve is None else curve_of(row.curve),
        )

    async def _row(self, query: Select[Any], call_id: CallId) -> Any:
        row = await self._reader.run(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            message = f"there is no record of the call {call_id}"
            raise NotFoundError(message)
        return row

    async def page(
        self,
        *,
        tenant: TenantId | None = None,
        session: SessionId | None = None,
        agent: PrincipalId | None = None,
        status: CallStatus | None = None,
        denial: DenialReason | None = None,
        name: str | None = None,
        kind: CallKind | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[CallView]:
        """Return calls, the one that ended last first; of a period, those that ended in it.

        The period begins at `since_ms` and ends before `until_ms`.
        """
        limit = clamped(limit)
        wanted: dict[str, str | None] = {
            "tenant": tenant,
            "session": session,
            "agent": agent,
            "status": status,
            "denial": denial,
            "name": name,
            "kind": kind,
        }
        query = (
            select(*SHOWN)
            .where(
                *(calls.c[column] == value for column, value in wanted.items() if value is not None)
            )
            .order_by(calls.c.ended_at_ms.desc(), calls.c.call_id.desc())
            .limit(limit + 1)
        )
        if since_ms is not None:
            query = query.where(calls.c.ended_at_ms >= since_ms)
        if until_ms is not None:
            query = query.where(calls.c.ended_at_ms < until_ms)
        if cursor is not None:
            query = query.where(_is_after(cursor))
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return page_of(
            rows, limit=limit, item=call_view, key=lambda row: (row.ended_at_ms, row.call_id)
        )

    async def latest_good(self, *, limit: int, in_full: str) -> tuple[GoodCall, ...]:
        """Return the tool calls that ended last and went well, in the order of their ends.

        Only calls of the tool `in_full` come with their arguments and detail.
        """
        is_wanted = calls.c.name == in_full
        query = (
            select(
                calls.c.tenant,
                calls.c.session,
                calls.c.name,
                calls.c.ended_at_ms,
                case((is_wanted, calls.c.arguments)),
                case((is_wanted, calls.c.detail)),
            )
            .where(calls.c.kind == CallKind.TOOL.value, calls.c.status == CallStatus.OK.value)
            .order_by(calls.c.ended_at_ms.desc(), calls.c.call_id.desc())
            .limit(limit)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(
            GoodCall(
                tenant=TenantId(tenant),
                session=SessionId(session),
                name=name,
                ended_at_ms=ended_at_ms,
                arguments=arguments,
                detail=detail,
            )
            for tenant, session, name, ended_at_ms, arguments, detail in reversed(rows)
        )

    async def bill(self, session_id: SessionId) -> Bill:
        """Return what the session was charged; one without calls has an empty bill."""
        return await self._reader.run(lambda connection: _bill(connection, session_id))


def _is_after(cursor: str) -> ColumnElement[bool]:
    ended_at_ms, call_id = key_of(cursor, kinds=(int, str))
    return (calls.c.ended_at_ms < ended_at_ms) | (
        (calls.c.ended_at_ms == ended_at_ms) & (calls.c.call_id < call_id)
    )


def _bill(connection: Connection, session_id: SessionId) -> Bill:
    of_session = calls.c.session == session_id
    charged = (_whole_sum(calls.c[unit.value]) for unit in Unit)
    sums = connection.execute(
        select(
            *charged,
            func.max(calls.c.memory_peak_bytes),
            func.min(calls.c.started_at_ms),
            func.max(calls.c.ended_at_ms),
        ).where(of_session)
    ).one()
    counts = connection.execute(
        select(calls.c.status, func.count()).where(of_session).group_by(calls.c.status)
    )
    *by_unit, memory_peak_bytes, first_started_at_ms, last_ended_at_ms = sums
    # Looking for each unit in each call takes twice as long as reading the few texts that differ.
    texts = connection.scalars(select(calls.c.unmeasured).where(of_session).distinct())
    blind = {unit for text in texts for unit in json.loads(text or "{}")}
    return Bill(
        session=session_id,
        charged=Amounts(dict(zip(Unit, by_unit, strict=True))),
        calls={CallStatus(status): count for status, count in counts},
        unmeasured=tuple(sorted(map(Unit, blind))),
        memory_peak_bytes=memory_peak_bytes,
        first_started_at_ms=first_started_at_ms,
        last_ended_at_ms=last_ended_at_ms,
    )


def _whole_sum(column: ColumnElement[int]) -> ColumnElement[int]:
    # PostgreSQL adds integers up to a decimal.
    return cast(func.coalesce(func.sum(column), 0), BigInteger)


def call_view(row: Any) -> CallView:
    """Return the call in a row of `SHOWN`."""
    return CallView(
        record=CallRecord(
            call_id=CallId(row.call_id),
            kind=CallKind(row.kind),
            name=row.name,
            chain=ScopeChain(
                tenant=TenantId(row.tenant),
                agent=PrincipalId(row.agent),
                session=SessionId(row.session),
            ),
            turn=None if row.turn is None else TurnId(row.turn),
            status=CallStatus(row.status),
            started_at_ms=row.started_at_ms,
            ended_at_ms=row.ended_at_ms,
            arguments=row.arguments,
            backend=row.backend,
            rule=row.rule,
            policy_version=row.policy_version,
            estimate=amounts_of(row.estimate),
            usage=_usage(row),
            denial=None if row.denial is None else DenialReason(row.denial),
            detail=row.detail,
            isolated=_isolated(row.isolated),
            result_bytes=row.result_bytes,
            archive_id=None if row.archive_id is None else ArchiveId(row.archive_id),
            arguments_hash=row.arguments_hash,
            result_hash=row.result_hash,
            price_version=row.price_version,
            usage_source=row.usage_source,
        ),
        charged=Amounts({unit: getattr(row, unit.value) for unit in Unit}),
        has_curve=bool(row.has_curve),
    )


def _usage(row: Any) -> Usage | None:
    if row.measured is None:
        return None
    return Usage(
        measured=amounts_of(row.measured),
        unmeasured={Unit(unit): why for unit, why in json.loads(row.unmeasured).items()},
        memory_peak_bytes=row.memory_peak_bytes,
    )


def _isolated(text: str | None) -> Isolated | None:
    if text is None:
        return None
    parts = json.loads(text)
    return Isolated(
        enforcement=Enforcement(parts["enforcement"]),
        contained=parts["contained"],
        by=parts["by"],
        why=parts["why"],
        energy_by=parts.get("energy_by", ""),  # calls of before it was kept have none
    )
