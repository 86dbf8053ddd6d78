"""Values of the governor as columns, and back."""

import json
from typing import Any

from governor.amounts import Amounts, Unit
from governor.budget import Budget
from governor.ids import BudgetId, TenantId
from governor.scope import ScopeKind
from governor.window import Fixed, Lifetime, Window

# One encoder: json.dumps makes a new one at each call that asks for anything special.
_ENCODER = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def json_of(value: object) -> str:
    """Return `value` as compact JSON with a fixed order of keys."""
    return _ENCODER.encode(value)


def amounts_json(amounts: Amounts) -> str:
    """Return `amounts` as JSON."""
    return json_of(amounts.as_dict())


def amounts_of(text: str) -> Amounts:
    """Return the amounts that `amounts_json` wrote."""
    return Amounts({Unit(unit): value for unit, value in json.loads(text).items()})


def window_ms(window: Window) -> int | None:
    """Return the length of `window`; None is a lifetime."""
    match window:
        case Lifetime():
            return None
        case Fixed(length_ms):
            return length_ms


def window_of(length_ms: int | None) -> Window:
    """Return the window of that length."""
    return Lifetime() if length_ms is None else Fixed(length_ms)


def budget_columns(budget: Budget) -> dict[str, object]:
    """Return the columns that say what `budget` is."""
    return {
        "budget_id": budget.budget_id,
        "tenant": budget.tenant,
        "scope": budget.scope.value,
        "subject": budget.subject,
        "limits": amounts_json(budget.limits),
        "window_ms": window_ms(budget.window),
        "is_quota": budget.is_quota,
    }


def budget_of(row: Any) -> Budget:
    """Return the budget in `row` of the table."""
    return Budget(
        budget_id=BudgetId(row.budget_id),
        tenant=TenantId(row.tenant),
        scope=ScopeKind(row.scope),
        subject=row.subject,
        limits=amounts_of(row.limits),
        window=window_of(row.window_ms),
        is_quota=row.is_quota,
    )
