"""The log of the router: each choice with its propensities, what became of it, who said so.

Recording is best effort and comes in batches; a report may be here before the choice that it is
about, and is joined to it when that comes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from governor.call import CallStatus
from governor.ids import CallId, PrincipalId, SessionId, TaskClass, TenantId, TierName, TurnId
from governor.learning.verdict import Report, Source, Verdict, verdict_on
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.router_tables import router_decisions, router_outcomes
from memory_store.writer import Writer

# The calls of one session that its outcome is spread over: the latest, for a session may go on.
SESSION_CALLS_MAX = 200
REMOVED_AT_ONCE = 256
# A call that was denied, never ran, failed, or was answered out of what was kept has another
# status or none, and says nothing of how good its tier is.
_SERVED = CallStatus.OK.value
_ENDS = ("status", "cost_microusd", "output_tokens", "latency_ms", "ended_at_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterDecision:
    """One choice of a tier: between what, by what, and how probable each tier was.

    `options` is JSON: for each tier its expected quality and cost and its propensity, as the
    router writes them. `features` are numbers that the words of the prompt cannot be told from.
    """

    call_id: CallId
    decided_at_ms: int
    tenant: TenantId
    agent: PrincipalId
    session: SessionId
    turn: TurnId | None
    task_class: TaskClass | None
    policy: str
    model: str | None
    tier: TierName
    propensity: float
    explored: bool
    price: float
    options: str
    features: bytes
    shadow_model: str | None = None
    shadow_tier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterEnd:
    """How the call of a choice ended."""

    call_id: CallId
    status: str
    cost_microusd: int | None
    output_tokens: int | None
    latency_ms: int | None
    ended_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReport:
    """What somebody says of a call, weighed already."""

    call_id: CallId
    source: Source
    reported_by: str
    score: float
    weight: float
    is_trusted: bool
    reported_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSign:
    """What the tools of a turn tell of the choice that began it: one failed, or a loop."""

    session: SessionId
    turn: TurnId
    score: float
    weight: float
    seen_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedDecision:
    """A choice with what is known of it by now; `learned` is what a bandit was taught of it."""

    decision: RouterDecision
    end: RouterEnd | None
    verdict: Verdict | None
    learned_by: str | None = None
    learned: Report | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTally:
    """How often a tier was chosen, to learn from it among that, and rated."""

    tier: str
    chosen: int
    rated: int
    explored: int


class RouterLog:
    """Keeps what the router chose and what came of it."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def record(
        self,
        decisions: tuple[RouterDecision, ...],
        ends: tuple[RouterEnd, ...],
        signs: tuple[TurnSign, ...],
    ) -> None:
        """Keep choices, how calls ended and what turns told; whatever is here already stays."""

        def work(connection: Connection) -> None:
            _insert(connection, decisions)
            _end(connection, ends)
            for sign in signs:
                _sign(connection, sign)

        await self._writer.run(work)

    async def report(self, reports: tuple[OutcomeReport, ...]) -> None:
        """Keep what is said of calls; of one source and reporter the last word stands."""

        def work(connection: Connection) -> None:
            for report in reports:
                _report(connection, report)
            for call_id in dict.fromkeys(report.call_id for report in reports):
                _weigh(connection, call_id)

        await self._writer.run(work)

    async def calls_of(self, session: SessionId) -> tuple[CallId, ...]:
        """Return the latest calls of a session that a tier was chosen for, and that it served."""
        is_served = router_decisions.c.status == _SERVED
        query = (
            select(router_decisions.c.call_id)
            .where(router_decisions.c.session == session, is_served)
            .order_by(router_decisions.c.decided_at_ms.desc())
            .limit(SESSION_CALLS_MAX)
        )
        found = await self._reader.run(lambda connection: connection.execute(query).scalars().all())
        return tuple(CallId(call_id) for call_id in found)

    async def page(
        self,
        *,
        since_ms: int = 0,
        is_rated: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[LoggedDecision]:
        """Return choices since then, the latest first; with `is_rated` those somebody rated."""
        at, name = router_decisions.c.decided_at_ms, router_decisions.c.call_id
        limit = clamped(limit)
        query = select(router_decisions).where(at >= since_ms)
        if is_rated:
            query = query.where(router_decisions.c.score.is_not(None))
        if cursor is not None:
            at_ms, call_id = key_of(cursor, kinds=(int, str))
            query = query.where(or_(at < at_ms, and_(at == at_ms, name < call_id)))
        query = query.order_by(at.desc(), name.desc()).limit(limit + 1)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return page_of(
            rows,
            limit=limit,
            item=logged_decision,
            key=lambda row: (row.decided_at_ms, row.call_id),
        )

    async def rated(self, *, since_ms: int, limit: int) -> tuple[LoggedDecision, ...]:
        """Return the latest choices since then that served and somebody rated, in their order."""
        at, name = router_decisions.c.decided_at_ms, router_decisions.c.call_id
        is_served = router_decisions.c.status == _SERVED
        query = (
            select(router_decisions)
            .where(at > since_ms, is_served, router_decisions.c.score.is_not(None))
            .order_by(at.desc(), name.desc())
            .limit(limit)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(logged_decision(row) for row in reversed(rows))

    async def pending(self, *, since_ms: int, limit: int) -> tuple[LoggedDecision, ...]:
        """Return choices since then that served and teach something, the oldest first."""
        is_since = router_decisions.c.decided_at_ms > since_ms
        is_served = router_decisions.c.status == _SERVED
        query = (
            select(router_decisions)
            .where(router_decisions.c.is_pending, is_since, is_served)
            .order_by(router_decisions.c.decided_at_ms, router_decisions.c.call_id)
            .limit(limit)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(logged_decision(row) for row in rows)

    async def tally(self) -> tuple[TierTally, ...]:
        """Return how often each tier was chosen, and how many of the choices were rated."""
        table = router_decisions.c
        query = (
            select(
                table.tier,
                func.count().label("chosen"),
                func.count(table.score).label("rated"),
                func.count(case((table.explored, 1))).label("explored"),
            )
            .group_by(table.tier)
            .order_by(table.tier)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(
            TierTally(tier=row.tier, chosen=row.chosen, rated=row.rated, explored=row.explored)
            for row in rows
        )

    async def remove(self, *, before_ms: int) -> int:
        """Remove choices and reports of before, some at a time; return how many choices."""
        total = 0
        while removed := await self._writer.run(
            lambda connection: _remove(connection, before_ms=before_ms), may_be_dropped=True
        ):
            total += removed
        return total


def _insert(connection: Connection, decisions: Sequence[RouterDecision]) -> None:
    ids = [decision.call_id for decision in decisions]
    if not ids:
        return
    table = router_decisions.c
    known = set(connection.scalars(select(table.call_id).where(table.call_id.in_(ids))))
    unheard = {"weight": 0.0, "is_trusted": False, "is_pending": False}
    rows = [
        {**asdict(decision), **unheard} for decision in decisions if decision.call_id not in known
    ]
    if rows:
        connection.execute(insert(router_decisions), rows)
    of_them = router_outcomes.c.call_id.in_(ids)
    for call_id in connection.scalars(select(router_outcomes.c.call_id).where(of_them).distinct()):
        _weigh(connection, call_id)


def _end(connection: Connection, ends: Iterable[RouterEnd]) -> None:
    query = (
        update(router_decisions)
        .where(router_decisions.c.call_id == bindparam("of_call"))
        .values({name: bindparam(f"its_{name}") for name in _ENDS})
    )
    rows = [
        {"of_call": end.call_id, **{f"its_{name}": getattr(end, name) for name in _ENDS}}
        for end in ends
    ]
    if rows:
        connection.execute(query, rows)


def _sign(connection: Connection, sign: TurnSign) -> None:
    """Take a sign for the last choice of its turn; the worst sign of a call stands."""
    table = router_decisions.c
    query = (
        select(table.call_id)
        .where(table.session == sign.session, table.turn == sign.turn)
        .order_by(table.decided_at_ms.desc())
        .limit(1)
    )
    call_id = connection.scalar(query)
    if call_id is None:
        return
    is_this = _is_report(call_id, Source.TOOL.value, "")
    before = connection.scalar(select(router_outcomes.c.score).where(is_this))
    if before is not None and before <= sign.score:
        return
    _report(
        connection,
        OutcomeReport(
            call_id=CallId(call_id),
            source=Source.TOOL,
            reported_by="",
            score=sign.score,
            weight=sign.weight,
            is_trusted=False,
            reported_at_ms=sign.seen_at_ms,
        ),
    )
    _weigh(connection, call_id)


def _report(connection: Connection, report: OutcomeReport) -> None:
    is_this = _is_report(report.call_id, report.source.value, report.reported_by)
    connection.execute(delete(router_outcomes).where(is_this))
    connection.execute(insert(router_outcomes), {**asdict(report), "source": report.source.value})


def _weigh(connection: Connection, call_id: str) -> None:
    """Say anew what all reports of a call amount to; there is something to learn if it changed."""
    outcomes = router_outcomes.c
    query = select(outcomes.score, outcomes.weight, outcomes.is_trusted)
    rows = connection.execute(query.where(outcomes.call_id == call_id).order_by(outcomes.source))
    verdict = verdict_on(
        [Report(score=row.score, weight=row.weight, is_trusted=row.is_trusted) for row in rows]
    )
    if verdict is None:
        return
    table = router_decisions.c
    is_other = or_(
        table.score.is_(None),
        table.score != verdict.score,
        table.weight != verdict.weight,
        table.is_trusted != verdict.is_trusted,
    )
    connection.execute(
        update(router_decisions)
        .where(table.call_id == call_id, is_other)
        .values(
            score=verdict.score,
            weight=verdict.weight,
            is_trusted=verdict.is_trusted,
            is_pending=True,
        )
    )


def _is_report(call_id: str, source: str, reported_by: str) -> ColumnElement[bool]:
    outcomes = router_outcomes.c
    return and_(
        outcomes.call_id == call_id,
        outcomes.source == source,
        outcomes.reported_by == reported_by,
    )


def _remove(connection: Connection, *, before_ms: int) -> int:
    table, outcomes = router_decisions.c, router_outcomes.c
    old = select(table.call_id).where(table.decided_at_ms < before_ms).limit(REMOVED_AT_ONCE)
    ids = connection.scalars(old).all()
    connection.execute(delete(router_outcomes).where(outcomes.call_id.in_(ids)))
    connection.execute(delete(router_decisions).where(table.call_id.in_(ids)))
    # What is said of calls that no tier was chosen for goes by its own time.
    kept = select(table.call_id).where(table.call_id == outcomes.call_id).exists()
    connection.execute(delete(router_outcomes).where(outcomes.reported_at_ms < before_ms, ~kept))
    return len(ids)


def logged_decision(row: Any) -> LoggedDecision:
    """Return the choice in a row of the table."""
    return LoggedDecision(
        decision=RouterDecision(
            call_id=CallId(row.call_id),
            decided_at_ms=row.decided_at_ms,
            tenant=TenantId(row.tenant),
            agent=PrincipalId(row.agent),
            session=SessionId(row.session),
            turn=None if row.turn is None else TurnId(row.turn),
            task_class=None if row.task_class is None else TaskClass(row.task_class),
            policy=row.policy,
            model=row.model,
            tier=TierName(row.tier),
            propensity=row.propensity,
            explored=row.explored,
            price=row.price,
            options=row.options,
            features=row.features,
            shadow_model=row.shadow_model,
            shadow_tier=row.shadow_tier,
        ),
        end=None
        if row.status is None
        else RouterEnd(
            call_id=CallId(row.call_id),
            status=row.status,
            cost_microusd=row.cost_microusd,
            output_tokens=row.output_tokens,
            latency_ms=row.latency_ms,
            ended_at_ms=row.ended_at_ms,
        ),
        verdict=None
        if row.score is None
        else Verdict(score=row.score, weight=row.weight, is_trusted=row.is_trusted),
        learned_by=row.learned_by,
        learned=None
        if row.learned_score is None
        else Report(score=row.learned_score, weight=row.learned_weight, is_trusted=row.is_trusted),
    )
