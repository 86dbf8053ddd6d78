"""What happened lately, in figures: how calls ended, what runs, what budgets were charged."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, select

from governor.amounts import Unit
from governor.approval import ApprovalState
from governor.call import CallStatus
from governor.denial import DenialReason
from governor.ids import PrincipalId, SessionId, TenantId
from governor.reservation import ReservationState
from governor.scope import ScopeKind
from memory_store import line_text
from memory_store.accounts import BalanceView
from memory_store.approval_rows import approvals
from memory_store.standing import Part, standing_balances, standing_of_sessions
from memory_store.tables import balances, calls, journal, reservations, sessions, tenants

MINUTE_MS = 60_000
# Each is the most that one glance looks at, whatever happened in the time.
_CALLS_MAX = 50_000
_JOURNAL_ROWS_AT_ONCE = 100
_CHARGES_MAX = 20_000
_TENANTS_MAX = 100
# Adding the accounts up is most of the work: they are all looked at before the list is cut.
_VIEWS_OF_SCOPE_MAX = 10_000
_SESSIONS_MAX = 100
_RUNNING_MAX = 50
_IDS_AT_ONCE = 500
_CHARGING = (f"{ReservationState.SETTLED.value} ", f"{ReservationState.EXPIRED.value} ")
_TOOL_AND_MODEL = ("tool", "model")

Account = tuple[str, str, Unit]
"""A budget, whose account of it, and the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """How calls ended in one minute, and what they cost."""

    at_ms: int
    calls: int
    denied: int
    cost_microusd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedFor:
    """How often calls were denied for one reason."""

    reason: DenialReason
    count: int
    last_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningHold:
    """A call that holds something: it runs, or waits to."""

    call_id: str
    kind: str
    name: str
    tenant: TenantId
    agent: PrincipalId
    session: SessionId
    session_name: str | None
    is_forwarded: bool
    started_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged:
    """What an account was charged, and since when."""

    amount: int
    first_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lately:
    """What happened since `since_ms`, which is later than asked where very much did."""

    since_ms: int
    charges_since_ms: int
    minutes: tuple[Minute, ...]
    statuses: Mapping[CallStatus, int]
    denials: tuple[DeniedFor, ...]
    running: tuple[RunningHold, ...]
    running_total: int
    sessions_open: int
    approvals_waiting: int
    views: tuple[tuple[TenantId, BalanceView], ...]
    charged: Mapping[Account, Charged]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Whose things are looked at; without either, everybody's."""

    tenant: TenantId | None = None
    agent: PrincipalId | None = None

    def of(self, table: Any) -> list[ColumnElement[bool]]:
        """Return the conditions on a table that names both."""
        found = [table.c.tenant == self.tenant] if self.tenant is not None else []
        return found + ([table.c.agent == self.agent] if self.agent is not None else [])


def look_back(
    connection: Connection, whose: Whose, *, since_ms: int, now_ms: int, fullest: int
) -> Lately:
    """Return what happened since `since_ms`, with the `fullest` accounts of budgets."""
    ended = _Ended(since_ms)
    for row in connection.execute(_ended_calls(whose, since_ms)):
        ended.add(row)
    running = connection.execute(_running(whose)).all()
    views = tuple(islice(_views(connection, whose, since_ms, now_ms, fullest), fullest))
    charges_since_ms, charged = _charges(connection, whose, since_ms)
    return Lately(
        since_ms=ended.since_ms,
        charges_since_ms=charges_since_ms,
        minutes=ended.in_minutes(now_ms),
        statuses=ended.statuses,
        denials=ended.in_reasons(),
        running=tuple(_hold(row) for row in running[:_RUNNING_MAX]),
        running_total=_count(connection, _live(whose)),
        sessions_open=_count(
            connection,
            select(sessions.c.session_id).where(
                sessions.c.closed_at_ms.is_(None), *whose.of(sessions)
            ),
        ),
        approvals_waiting=_count(
            connection,
            select(approvals.c.approval_id).where(
                approvals.c.state == ApprovalState.PENDING.value, *whose.of(approvals)
            ),
        ),
        views=views,
        charged=charged,
    )


@dataclass(slots=True)
class _Ended:
    """The calls that ended, added up."""

    since_ms: int
    count: int = 0
    minutes: dict[int, list[int]] = field(default_factory=dict)
    statuses: dict[CallStatus, int] = field(default_factory=dict)
    denials: dict[DenialReason, list[int]] = field(default_factory=dict)

    def add(self, row: Row[Any]) -> None:
        """Add calls of one minute that ended alike."""
        self.count += row.ended
        if self.count >= _CALLS_MAX:
            self.since_ms = max(self.since_ms, row.first_at_ms)
        status = CallStatus(row.status)
        self.statuses[status] = self.statuses.get(status, 0) + row.ended
        minute = self.minutes.setdefault(int(row.minute), [0, 0, 0])
        minute[0] += row.ended
        minute[2] += int(row.cost_microusd)
        if status is CallStatus.DENIED and row.denial is not None:
            minute[1] += row.ended
            told = self.denials.setdefault(DenialReason(row.denial), [0, 0])
            told[0] += row.ended
            told[1] = max(told[1], row.last_at_ms)

    def in_minutes(self, now_ms: int) -> tuple[Minute, ...]:
        """Return every minute since, those without a call too."""
        whole = range(self.since_ms // MINUTE_MS, now_ms // MINUTE_MS + 1)
        return tuple(
            Minute(at_ms=at * MINUTE_MS, calls=found[0], denied=found[1], cost_microusd=found[2])
            for at in whole
            for found in (self.minutes.get(at, (0, 0, 0)),)
        )

    def in_reasons(self) -> tuple[DeniedFor, ...]:
        """Return why calls were denied, what happened most first."""
        found = (
            DeniedFor(reason=reason, count=count, last_at_ms=last)
            for reason, (count, last) in self.denials.items()
        )
        return tuple(sorted(found, key=lambda one: (-one.count, one.reason)))


def _ended_calls(whose: Whose, since_ms: int) -> Select[Any]:
    latest = (
        select(calls.c.status, calls.c.denial, calls.c.ended_at_ms, calls.c.cost_microusd)
        .where(calls.c.ended_at_ms >= since_ms, *whose.of(calls))
        .order_by(calls.c.ended_at_ms.desc(), calls.c.call_id.desc())
        .limit(_CALLS_MAX)
        .subquery()
    )
    minute = (latest.c.ended_at_ms // MINUTE_MS).label("minute")
    return (
        select(
            minute,
            latest.c.status,
            latest.c.denial,
            func.count().label("ended"),
            func.sum(latest.c.cost_microusd).label("cost_microusd"),
            func.min(latest.c.ended_at_ms).label("first_at_ms"),
            func.max(latest.c.ended_at_ms).label("last_at_ms"),
        )
        .group_by(minute, latest.c.status, latest.c.denial)
        .order_by(minute.desc())
    )


def _live(whose: Whose) -> Select[Any]:
    return select(reservations.c.reservation_id).where(
        reservations.c.ended_at_ms.is_(None),
        reservations.c.kind.in_(_TOOL_AND_MODEL),
        *whose.of(reservations),
    )


def _running(whose: Whose) -> Select[Any]:
    return (
        select(reservations, sessions.c.name.label("session_name"))
        .outerjoin(sessions, sessions.c.session_id == reservations.c.session)
        .where(
            reservations.c.ended_at_ms.is_(None),
            reservations.c.kind.in_(_TOOL_AND_MODEL),
            *whose.of(reservations),
        )
        .order_by(reservations.c.created_at_ms, reservations.c.reservation_id)
        .limit(_RUNNING_MAX)
    )


def _hold(row: Row[Any]) -> RunningHold:
    return RunningHold(
        call_id=row.call_id,
        kind=row.kind,
        name=row.name,
        tenant=TenantId(row.tenant),
        agent=PrincipalId(row.agent),
        session=SessionId(row.session),
        session_name=row.session_name,
        is_forwarded=row.state == ReservationState.FORWARDED.value,
        started_at_ms=row.created_at_ms,
    )


def _count(connection: Connection, query: Select[Any]) -> int:
    return connection.scalar(select(func.count()).select_from(query.subquery())) or 0


def _views(
    connection: Connection, whose: Whose, since_ms: int, now_ms: int, fullest: int
) -> Iterator[tuple[TenantId, BalanceView]]:
    """Yield how budgets stand, the fullest first; of sessions those that were seen lately."""
    if whose.tenant is not None:
        names = [whose.tenant]
    else:
        some = select(tenants.c.tenant_id).order_by(tenants.c.tenant_id).limit(_TENANTS_MAX)
        names = [TenantId(name) for name in connection.scalars(some)]
    found: list[tuple[TenantId, BalanceView]] = []
    for tenant in names:
        for scope in (ScopeKind.TENANT, ScopeKind.AGENT):
            part = Part(scope=scope, limit=_VIEWS_OF_SCOPE_MAX)
            found += [
                (tenant, view)
                for view in standing_balances(
                    connection,
                    tenant=tenant,
                    agent=whose.agent,
                    session=None,
                    now_ms=now_ms,
                    part=part,
                )
            ]
        seen = _sessions_seen(connection, Whose(tenant=tenant, agent=whose.agent), since_ms)
        found += [
            (tenant, view) for view in standing_of_sessions(connection, tenant, seen, now_ms=now_ms)
        ]
    yield from sorted(found, key=lambda one: -_fullness_permille(one[1]))[:fullest]


def _fullness_permille(view: BalanceView) -> int:
    most = view.limit if view.burst is None else view.burst
    return (view.used + view.reserved) * 1000 // most if most else 1000


def _sessions_seen(connection: Connection, whose: Whose, since_ms: int) -> tuple[SessionId, ...]:
    rows = connection.scalars(
        select(sessions.c.session_id)
        .where(
            sessions.c.closed_at_ms.is_(None),
            sessions.c.last_seen_at_ms >= since_ms,
            *whose.of(sessions),
        )
        .order_by(sessions.c.last_seen_at_ms.desc())
        .limit(_SESSIONS_MAX)
    )
    return tuple(SessionId(name) for name in rows)


def _charges(
    connection: Connection, whose: Whose, since_ms: int
) -> tuple[int, Mapping[Account, Charged]]:
    """Return what each account was charged, and since when that is known.

    The journal is read from its end backwards, as far as one glance may.
    """
    by_number: dict[int, list[int]] = {}
    left, reached_ms = _CHARGES_MAX, since_ms
    for row in _journal(connection, whose):
        if row.at_ms < since_ms:
            reached_ms = since_ms
            break
        reached_ms = row.at_ms
        if left <= 0:
            break
        left -= _add_charges(by_number, row)
    else:
        reached_ms = since_ms  # that was all
    return max(since_ms, reached_ms), _named(connection, by_number)


def _journal(connection: Connection, whose: Whose) -> Iterator[Row[Any, Any, Any]]:
    """Yield rows from the end backwards, a few at a time: each may be large."""
    place = journal.c.seq if whose.tenant is None else journal.c.number
    query = (
        select(place.label("place"), journal.c.at_ms, journal.c.entries)
        .order_by(place.desc())
        .limit(_JOURNAL_ROWS_AT_ONCE)
    )
    if whose.tenant is not None:
        query = query.where(journal.c.tenant == whose.tenant)
    rows = connection.execute(query).all()
    while rows:
        yield from rows
        rows = connection.execute(query.where(place < rows[-1].place)).all()


def _add_charges(by_number: dict[int, list[int]], row: Row[Any, Any, Any]) -> int:
    """Add up the charges of a row; return how many there were."""
    count, at_ms = 0, row.at_ms
    for entry in row.entries.split("\n"):
        if not entry.startswith(_CHARGING):
            continue
        for account, charged in line_text.charged(entry.split()[2:]):
            count += 1
            if charged:
                found = by_number.get(account)
                if found is None:
                    by_number[account] = [charged, at_ms]
                else:
                    found[0] += charged
                    found[1] = min(found[1], at_ms)
    return count


def _named(connection: Connection, by_number: Mapping[int, list[int]]) -> Mapping[Account, Charged]:
    """Return charges by what their accounts are; the windows of one are added up."""
    found: dict[Account, Charged] = {}
    numbers = sorted(by_number)
    for at in range(0, len(numbers), _IDS_AT_ONCE):
        some = numbers[at : at + _IDS_AT_ONCE]
        rows = connection.execute(
            select(
                balances.c.account_id, balances.c.budget_id, balances.c.subject, balances.c.unit
            ).where(balances.c.account_id.in_(some))
        )
        for number, budget_id, subject, unit in rows:
            amount, first_at_ms = by_number[number]
            account = (budget_id, subject, Unit(unit))
            before = found.get(account, Charged(amount=0, first_at_ms=first_at_ms))
            found[account] = Charged(
                amount=before.amount + amount, first_at_ms=min(before.first_at_ms, first_at_ms)
            )
    return found
