"""How the budgets of a tenant stand, for people and for agents who ask."""

from collections.abc import Collection, Iterator, Mapping

from sqlalchemy import Connection, select

from governor.amounts import Unit
from governor.budget import Budget
from governor.ids import PrincipalId, SessionId, TenantId
from governor.scope import ScopeKind
from memory_store.accounts import BalanceView
from memory_store.live_budgets import live_budgets
from memory_store.tables import balances, sessions

# One answer is for a page on a screen or a model's context, not for an export.
BALANCES_MAX = 1_000

# (subject, unit) -> settled, reserved, overrun
Used = Mapping[tuple[str, Unit], tuple[int, int, int]]


def standing_balances(
    connection: Connection,
    *,
    tenant: TenantId,
    agent: PrincipalId | None,
    session: SessionId | None,
    now_ms: int,
) -> tuple[BalanceView, ...]:
    """Return how the live budgets of `tenant` stand, at most `BALANCES_MAX` of them."""
    own = None if agent is None else _sessions_of(connection, agent)
    views: list[BalanceView] = []
    for budget in live_budgets(connection, tenant):
        used = _used(connection, budget, now_ms)
        for subject in subjects_shown(budget, used, agent=agent, session=session, own=own):
            views.extend(views_of(budget, subject, used, now_ms))
            if len(views) >= BALANCES_MAX:
                return tuple(views[:BALANCES_MAX])
    return tuple(views)


def subjects_shown(
    budget: Budget,
    used: Used,
    *,
    agent: PrincipalId | None,
    session: SessionId | None,
    own: Collection[str] | None,
) -> tuple[str, ...]:
    """Return for whom `budget` is shown; `own` are the sessions of `agent`."""
    wanted = {
        ScopeKind.TENANT: budget.tenant,
        ScopeKind.AGENT: agent,
        ScopeKind.SESSION: session,
    }[budget.scope]
    if wanted is not None:
        return (wanted,) if budget.subject in (None, wanted) else ()
    found = {subject for subject, _ in used} if budget.subject is None else {budget.subject}
    if budget.scope is ScopeKind.SESSION and own is not None:
        found &= set(own)
    return tuple(sorted(found))


def views_of(budget: Budget, subject: str, used: Used, now_ms: int) -> Iterator[BalanceView]:
    """Yield how each unit of `budget` stands for `subject`."""
    for unit, limit in budget.limits:
        settled, reserved, overrun = used.get((subject, unit), (0, 0, 0))
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
            resets_at_ms=budget.window.resets_at_ms(now_ms),
            is_quota=budget.is_quota,
        )


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


def _used(connection: Connection, budget: Budget, now_ms: int) -> Used:
    """Return what `budget` has in the present window, account by account."""
    rows = connection.execute(
        select(
            balances.c.subject,
            balances.c.unit,
            balances.c.settled,
            balances.c.reserved,
            balances.c.overrun,
        )
        .where(
            balances.c.budget_id == budget.budget_id,
            balances.c.window_start_ms == budget.window.start_ms(now_ms),
        )
        .order_by(balances.c.subject)
        .limit(BALANCES_MAX * len(Unit))
    )
    return {
        (subject, Unit(unit)): (settled, reserved, overrun)
        for subject, unit, settled, reserved, overrun in rows
    }
