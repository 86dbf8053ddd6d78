"""What a store holds under given names, as of one instant."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from governor.ids import BudgetId, PrincipalId, SessionId, TenantId
from memory_store.budget_rows import BudgetView, budget_view
from memory_store.tables import budgets, principals, sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What is looked for."""

    budgets: Collection[BudgetId] = ()
    principals: Collection[PrincipalId] = ()
    sessions: Collection[SessionId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKnown:
    """Whose session it is, and what its agent calls it."""

    tenant: TenantId
    agent: PrincipalId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What there is of it: budgets, retired ones too, and whose principals and sessions."""

    budgets: Mapping[BudgetId, BudgetView]
    principals: Mapping[PrincipalId, TenantId]
    sessions: Mapping[SessionId, SessionKnown]


def look_up(connection: Connection, names: Names) -> Found:
    """Return what stands under `names`."""
    rows = connection.execute(select(budgets).where(budgets.c.budget_id.in_(names.budgets)))
    people = connection.execute(
        select(principals.c.principal_id, principals.c.tenant).where(
            principals.c.principal_id.in_(names.principals)
        )
    )
    runs = connection.execute(
        select(sessions.c.session_id, sessions.c.tenant, sessions.c.agent, sessions.c.name).where(
            sessions.c.session_id.in_(names.sessions)
        )
    )
    return Found(
        budgets={view.budget.budget_id: view for view in map(budget_view, rows)},
        principals={PrincipalId(name): TenantId(tenant) for name, tenant in people},
        sessions={
            SessionId(row.session_id): SessionKnown(
                tenant=TenantId(row.tenant), agent=PrincipalId(row.agent), name=row.name
            )
            for row in runs
        },
    )
