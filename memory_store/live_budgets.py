"""The budgets in force, remembered so that an admission need not read them again."""

from sqlalchemy import Connection, select

from governor.budget import Budget
from governor.ids import TenantId
from governor.scope import ScopeChain, ScopeKind
from memory_store.rows import budget_of
from memory_store.tables import budgets

_TENANTS_MAX = 1024

Standing = dict[tuple[ScopeKind, str | None], tuple[Budget, ...]]


def governing(standing: Standing, chain: ScopeChain) -> tuple[Budget, ...]:
    """Return those of `standing` that calls of `chain` are charged to."""
    return tuple(
        budget
        for scope in chain
        for subject in (None, scope.subject)
        for budget in standing.get((scope.kind, subject), ())
    )


def standing_of(live: list[Budget]) -> Standing:
    """Return `live` by where each stands, so that a chain finds its own few at once."""
    standing: Standing = {}
    for budget in live:
        place = (budget.scope, budget.subject)
        standing[place] = (*standing.get(place, ()), budget)
    return standing


class LiveBudgets:
    """A cache that belongs to the writer's thread, the only one that changes budgets."""

    def __init__(self) -> None:
        self._by_tenant: dict[TenantId, Standing] = {}

    def governing(self, connection: Connection, chain: ScopeChain) -> tuple[Budget, ...]:
        """Return the live budgets that calls of `chain` are charged to."""
        standing = self._by_tenant.get(chain.tenant)
        if standing is None:
            if len(self._by_tenant) >= _TENANTS_MAX:
                self._by_tenant.clear()
            standing = standing_of(live_budgets(connection, chain.tenant))
            self._by_tenant[chain.tenant] = standing
        return governing(standing, chain)

    def forget(self, tenant: TenantId) -> None:
        """Read the budgets of `tenant` again at the next admission."""
        self._by_tenant.pop(tenant, None)

    def forget_all(self) -> None:
        """Read everything again."""
        self._by_tenant.clear()


def live_budgets(connection: Connection, tenant: TenantId) -> list[Budget]:
    """Return every budget of `tenant` that is not retired, its quota included."""
    rows = connection.execute(
        select(budgets)
        .where(budgets.c.tenant == tenant, budgets.c.retired_at_ms.is_(None))
        .order_by(budgets.c.budget_id)
    )
    return [budget_of(row) for row in rows]
