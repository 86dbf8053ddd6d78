"""How the budgets of a tenant stand, for people and for agents who ask."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from governor.account import BalanceKey, carve_budget
from governor.amounts import Unit
from governor.budget import Budget, BudgetKind
from governor.ids import PrincipalId, SessionId, TenantId
from governor.rate import Rate
from governor.scope import ScopeKind
from governor.window import Fixed, Lifetime
from memory_store.accounts import BalanceView
from memory_store.live_budgets import live_budgets
from memory_store.tables import balances, sessions

# One answer is for a page on a screen or a model's context, not for an export.
BALANCES_MAX = 1_000

# (subject, unit) -> settled, reserved, overrun
Used = Mapping[tuple[str, Unit], tuple[int, int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """For whom the budgets are shown.

    `session` is the first of `chain`, which goes down to the session that asks.
    `own` are all sessions of `agent`.
    """

    agent: PrincipalId | None
    session: SessionId | None
    chain: Sequence[SessionId] = ()
    own: Collection[str] | None = None


def standing_balances(
    connection: Connection,
    *,
    tenant: TenantId,
    agent: PrincipalId | None,
    session: SessionId | None,
    now_ms: int,
) -> tuple[BalanceView, ...]:
    """Return how the live budgets of `tenant` stand, at most `BALANCES_MAX` of them."""
    chain = () if session is None else _chain_of(connection, session)
    asked = Asked(
        agent=agent,
        session=chain[0] if chain else session,
        chain=chain,
        own=None if agent is None else _sessions_of(connection, agent),
    )
    shown = list(
        views(
            live_budgets(connection, tenant),
            lambda budget, starts: _used(connection, budget, starts),
            asked,
            now_ms,
        )
    )
    for sub_session in chain[1:]:
        shown.extend(_carve_views(connection, sub_session))
    return tuple(shown[:BALANCES_MAX])


def views(
    budgets: Sequence[Budget],
    used_by: Callable[[Budget, Collection[int]], Used],
    asked: Asked,
    now_ms: int,
) -> Iterator[BalanceView]:
    """Yield how each of `budgets` stands; `used_by` adds up its accounts in some windows."""
    for budget in budgets:
        used = _counting(budget, used_by, now_ms)
        for subject in subjects_shown(budget, used, asked):
            yield from views_of(budget, subject, used, now_ms)


def _counting(
    budget: Budget, used_by: Callable[[Budget, Collection[int]], Used], now_ms: int
) -> Used:
    """Return what counts at `now_ms`; each unit of a rate has a scale of its own."""
    units_by_starts: dict[tuple[int, ...], set[Unit]] = {}
    for unit, _ in budget.limits:
        units_by_starts.setdefault(budget.starts_ms(unit, now_ms), set()).add(unit)
    return {
        place: amounts
        for starts, units in units_by_starts.items()
        for place, amounts in used_by(budget, starts).items()
        if place[1] in units
    }


def subjects_shown(budget: Budget, used: Used, asked: Asked) -> tuple[str, ...]:
    """Return for whom `budget` is shown."""
    if budget.scope is ScopeKind.SESSION and budget.subject in asked.chain:
        return (str(budget.subject),)
    wanted = {
        ScopeKind.TENANT: budget.tenant,
        ScopeKind.AGENT: asked.agent,
        ScopeKind.SESSION: asked.session,
    }[budget.scope]
    if wanted is not None:
        return (wanted,) if budget.subject in (None, wanted) else ()
    found = {subject for subject, _ in used} if budget.subject is None else {budget.subject}
    if budget.scope is ScopeKind.SESSION and asked.own is not None:
        found &= set(asked.own)
    return tuple(sorted(found))


def views_of(budget: Budget, subject: str, used: Used, now_ms: int) -> Iterator[BalanceView]:
    """Yield how each unit of `budget` stands for `subject`."""
    for unit, limit in budget.limits:
        settled, reserved, overrun = used.get((subject, unit), (0, 0, 0))
        rate = None
        if budget.kind is BudgetKind.RATE:
            assert isinstance(budget.window, Fixed), "a rate has a fixed window"
            burst = budget.burst or limit
            rate = Rate(limit=limit, every_ms=budget.window.length_ms, burst=burst)
            settled = burst - rate.level(settled, now_ms)
        yield BalanceView(
            budget_id=budget.budget_id,
            scope=budget.scope,
            subject=subject,
            unit=unit,
            limit=limit,
            used=settled,
            reserved=reserved,
            overrun=overrun,
            window=budget.window,
            resets_at_ms=(
                None if budget.kind is BudgetKind.RATE else budget.window.resets_at_ms(now_ms)
            ),
            is_quota=budget.is_quota,
            kind=budget.kind,
            mode=budget.mode,
            every_ms=None if rate is None else rate.every_ms,
            burst=None if rate is None else rate.burst,
        )


def carve_view(key: BalanceKey, limit: int, amounts: tuple[int, int, int]) -> BalanceView:
    """Return how one unit of a sub-session's allowance stands."""
    settled, reserved, overrun = amounts
    return BalanceView(
        budget_id=key.budget_id,
        scope=ScopeKind.SUB_SESSION,
        subject=key.subject,
        unit=key.unit,
        limit=limit,
        used=settled,
        reserved=reserved,
        overrun=overrun,
        window=Lifetime(),
        resets_at_ms=None,
        is_quota=False,
    )


def _carve_views(connection: Connection, session: SessionId) -> Iterator[BalanceView]:
    text = connection.scalar(select(sessions.c.carve).where(sessions.c.session_id == session))
    rows = connection.execute(
        select(balances.c.unit, balances.c.settled, balances.c.reserved, balances.c.overrun).where(
            balances.c.budget_id == carve_budget(session)
        )
    )
    used = {Unit(unit): (settled, reserved, over) for unit, settled, reserved, over in rows}
    for name, limit in json.loads(text or "{}").items():
        key = BalanceKey(carve_budget(session), session, Unit(name), 0)
        yield carve_view(key, limit, used.get(Unit(name), (0, 0, 0)))


def _chain_of(connection: Connection, session: SessionId) -> tuple[SessionId, ...]:
    """Return the session and those above it, the first one first."""
    chain = [session]
    while True:
        parent = connection.scalar(
            select(sessions.c.parent).where(sessions.c.session_id == chain[0])
        )
        if parent is None or parent in chain:
            return tuple(chain)
        chain.insert(0, SessionId(parent))


def _sessions_of(connection: Connection, agent: PrincipalId) -> frozenset[str]:
    """Return the sessions of `agent`, the latest of them if there are very many."""
    return frozenset(
        connection.scalars(
            select(sessions.c.session_id)
            .where(sessions.c.agent == agent)
            .order_by(sessions.c.last_seen_at_ms.desc())
            .limit(BALANCES_MAX)
        )
    )


def _used(connection: Connection, budget: Budget, starts: Collection[int]) -> Used:
    """Return what `budget` has in the windows that began at `starts`, account by account."""
    rows = connection.execute(
        select(
            balances.c.subject,
            balances.c.unit,
            func.sum(balances.c.settled),
            func.sum(balances.c.reserved),
            func.sum(balances.c.overrun),
        )
        .where(balances.c.budget_id == budget.budget_id, balances.c.window_start_ms.in_(starts))
        .group_by(balances.c.subject, balances.c.unit)
        .order_by(balances.c.subject)
        .limit(BALANCES_MAX * len(Unit))
    )
    return {
        (subject, Unit(unit)): (int(settled), int(reserved), int(overrun))
        for subject, unit, settled, reserved, overrun in rows
    }
