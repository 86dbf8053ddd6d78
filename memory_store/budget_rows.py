"""Budgets as rows: found, measured against the quota, shown."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from governor.budget import Budget
from governor.errors import InvalidBudgetError
from governor.ids import BudgetId, TenantId
from governor.window import Fixed
from memory_store.errors import AboveQuotaError, NotABudgetError, NotFoundError
from memory_store.rows import budget_of
from memory_store.tables import budgets

# A window of more than ten years is meant to be a lifetime, and no clock counts to its end.
WINDOW_SECONDS_MAX = 10 * 366 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetView:
    """A budget as it is stored; a retired one governs no new call."""

    budget: Budget
    created_at_ms: int
    updated_at_ms: int
    retired_at_ms: int | None
    version: int


def quota_id(tenant: TenantId) -> BudgetId:
    """Return the id of the one budget that is the quota of `tenant`."""
    return BudgetId(f"quota:{tenant}")


def find_budget(connection: Connection, budget_id: BudgetId) -> BudgetView | None:
    """Return the budget, be it a retired one."""
    row = connection.execute(select(budgets).where(budgets.c.budget_id == budget_id)).one_or_none()
    return None if row is None else budget_view(row)


def live_budget(connection: Connection, budget_id: BudgetId) -> BudgetView:
    """Return the budget.

    Raises:
        NotFoundError: there is no such budget, or it is retired.
    """
    found = find_budget(connection, budget_id)
    if found is None or found.retired_at_ms is not None:
        message = f"there is no budget {budget_id}"
        raise NotFoundError(message)
    return found


def check_within_quota(connection: Connection, budget: Budget) -> None:
    """Return if no limit of `budget` is above the tenant's quota for the same unit.

    Raises:
        AboveQuotaError: one is.
        NotABudgetError: `budget` is itself a quota.
    """
    if budget.is_quota or budget.budget_id == quota_id(budget.tenant):
        raise NotABudgetError
    quota = find_budget(connection, quota_id(budget.tenant))
    if quota is None:
        return
    for unit, limit in budget.limits:
        if unit in quota.budget.limits and limit > quota.budget.limits.of(unit):
            raise AboveQuotaError(unit=unit, limit=limit, quota=quota.budget.limits.of(unit))


def check_window(budget: Budget) -> None:
    """Return if the window of `budget` is one that can be stored and will end.

    Raises:
        InvalidBudgetError: it is longer.
    """
    window = budget.window
    if isinstance(window, Fixed) and window.length_ms > WINDOW_SECONDS_MAX * 1000:
        message = (
            f"window.every_s: {window.length_ms // 1000} is above {WINDOW_SECONDS_MAX}, "
            "which is ten years; a longer window is a lifetime"
        )
        raise InvalidBudgetError(message)


def budget_view(row: Any) -> BudgetView:
    """Return the budget in `row` of the table."""
    return BudgetView(
        budget=budget_of(row),
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
        retired_at_ms=row.retired_at_ms,
        version=row.version,
    )
