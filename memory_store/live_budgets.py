"""The budgets in force and the accounts they open for a chain, remembered between admissions."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from governor.account import Account
from governor.budget import Budget, accounts_for
from governor.carving import with_carves
from governor.ids import SessionId, TenantId
from governor.scope import ScopeChain, ScopeKind
from governor.target import CallTarget
from governor.window import turns_over_at_ms
from memory_store.live_sessions import LiveSession
from memory_store.rows import budget_of
from memory_store.tables import budgets

_TENANTS_MAX = 1024
_PLANS_MAX = 10_000
_FOR_EVER_MS = 2**62

Standing = dict[tuple[ScopeKind, str | None], tuple[Budget, ...]]


def governing(standing: Standing, chain: ScopeChain) -> tuple[Budget, ...]:
    """Return those of `standing` that calls of `chain` are charged to."""
    subjects = [(ScopeKind.TENANT, chain.tenant), (ScopeKind.AGENT, chain.agent)]
    subjects += [(ScopeKind.SESSION, session) for session in chain.sessions]
    places = [(kind, None) for kind in (ScopeKind.TENANT, ScopeKind.AGENT, ScopeKind.SESSION)]
    return tuple(budget for place in (*places, *subjects) for budget in standing.get(place, ()))


def standing_of(live: list[Budget]) -> Standing:
    """Return `live` by where each stands, so that a chain finds its own few at once."""
    standing: Standing = {}
    for budget in live:
        place = (budget.scope, budget.subject)
        standing[place] = (*standing.get(place, ()), budget)
    return standing


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The accounts of one chain and target, and from when until when they are these."""

    accounts: tuple[Account, ...]
    from_ms: int
    until_ms: int


class LiveBudgets:
    """A cache that belongs to the writer's thread, the only one that changes budgets."""

    def __init__(self) -> None:
        self._by_tenant: dict[TenantId, Standing] = {}
        self._plans: dict[tuple[SessionId, CallTarget], _Plan] = {}

    def accounts(
        self, connection: Connection, session: LiveSession, target: CallTarget, now_ms: int
    ) -> tuple[Account, ...]:
        """Return every account that a call of `target` in `session` touches, in lock order."""
        place = (session.session_id, target)
        plan = self._plans.get(place)
        if plan is None or not plan.from_ms <= now_ms < plan.until_ms:
            if len(self._plans) >= _PLANS_MAX:
                self._plans.clear()
            plan = self._planned(connection, session, target, now_ms)
            self._plans[place] = plan
        return plan.accounts

    def forget(self, tenant: TenantId) -> None:
        """Read the budgets of `tenant` again at the next admission."""
        self._by_tenant.pop(tenant, None)
        self._plans.clear()

    def forget_all(self) -> None:
        """Read everything again."""
        self._by_tenant.clear()
        self._plans.clear()

    def _planned(
        self, connection: Connection, session: LiveSession, target: CallTarget, now_ms: int
    ) -> _Plan:
        chain = session.chain
        found = governing(self._standing(connection, chain.tenant), chain)
        accounts = accounts_for(found, chain, target, now_ms)
        if session.carves:
            accounts = with_carves(accounts, session.carves)
        over = [turns_over_at_ms(budget.window, now_ms) for budget in found]
        return _Plan(
            accounts=accounts,
            from_ms=max((budget.window.start_ms(now_ms) for budget in found), default=0),
            until_ms=min((at for at in over if at is not None), default=_FOR_EVER_MS),
        )

    def _standing(self, connection: Connection, tenant: TenantId) -> Standing:
        standing = self._by_tenant.get(tenant)
        if standing is None:
            if len(self._by_tenant) >= _TENANTS_MAX:
                self._by_tenant.clear()
            standing = standing_of(live_budgets(connection, tenant))
            self._by_tenant[tenant] = standing
        return standing


def live_budgets(connection: Connection, tenant: TenantId) -> list[Budget]:
    """Return every budget of `tenant` that is not retired, its quota included."""
    rows = connection.execute(
        select(budgets)
        .where(budgets.c.tenant == tenant, budgets.c.retired_at_ms.is_(None))
        .order_by(budgets.c.budget_id)
    )
    return [budget_of(row) for row in rows]
