"""Values of the governor as columns, and back."""

import json
from dataclasses import asdict
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from governor.amounts import Amounts, Unit
from governor.budget import Budget, BudgetKind, Mode, Overdraft
from governor.errors import InvalidBudgetError
from governor.ids import BudgetId, TenantId
from governor.scope import ScopeKind
from governor.target import TargetMatch
from governor.window import Calendar, Fixed, Lifetime, Period, Sliding, Window

# One encoder: json.dumps makes a new one at each call that asks for anything special.
_ENCODER = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def json_of(value: object) -> str:
    """Return `value` as compact JSON with a fixed order of keys."""
    return _ENCODER.encode(value)


# The value of an enumeration's member is a computed attribute, and slow.
UNIT_NAMES = tuple((unit, unit.value) for unit in Unit)
_NAME_OF = dict(UNIT_NAMES)


def amounts_json(amounts: Amounts) -> str:
    """Return `amounts` as JSON; names and integers need no escapes."""
    parts = [f'"{_NAME_OF[unit]}":{value}' for unit, value in amounts.by_unit.items()]
    return "{" + ",".join(parts) + "}"


def amounts_of(text: str) -> Amounts:
    """Return the amounts that `amounts_json` wrote."""
    return Amounts({Unit(unit): value for unit, value in json.loads(text).items()})


def window_json(window: Window) -> str:
    """Return `window` as JSON."""
    match window:
        case Lifetime():
            parts: dict[str, object] = {"kind": "lifetime"}
        case Fixed(length_ms):
            parts = {"kind": "fixed", "length_ms": length_ms}
        case Calendar():
            parts = {
                "kind": "calendar",
                "period": window.period.value,
                "time_zone": window.time_zone,
            }
        case Sliding():
            parts = {
                "kind": "sliding",
                "length_ms": window.length_ms,
                "buckets": window.buckets,
            }
    return json_of(parts)


def window_of(text: str) -> Window:
    """Return the window that `window_json` wrote."""
    parts = json.loads(text)
    match parts.pop("kind"):
        case "fixed":
            return Fixed(parts["length_ms"])
        case "calendar":
            return calendar(Period(parts["period"]), parts["time_zone"])
        case "sliding":
            return Sliding(**parts)
        case _:
            return Lifetime()


def calendar(period: Period, time_zone: str) -> Calendar:
    """Return the calendar window of a zone of the IANA database.

    Raises:
        InvalidBudgetError: there is no such zone.
    """
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"window.time_zone: {time_zone!r} is no zone of the IANA database"
        raise InvalidBudgetError(message) from error
    return Calendar(period=period, time_zone=time_zone, zone=zone)


def budget_columns(budget: Budget) -> dict[str, object]:
    """Return the columns that say what `budget` is."""
    return {
        "budget_id": budget.budget_id,
        "tenant": budget.tenant,
        "scope": budget.scope.value,
        "subject": budget.subject,
        "limits": amounts_json(budget.limits),
        "window": window_json(budget.window),
        "kind": budget.kind.value,
        "burst": budget.burst,
        "target": json_of(asdict(budget.match)),
        "mode": budget.mode.value,
        "overdraft": budget.overdraft.value,
        "warn_at": json_of(budget.warn_at_permille),
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
        window=window_of(row.window),
        is_quota=row.is_quota,
        kind=BudgetKind(row.kind),
        burst=row.burst,
        match=TargetMatch(**json.loads(row.target)),
        mode=Mode(row.mode),
        overdraft=Overdraft(row.overdraft),
        warn_at_permille=tuple(json.loads(row.warn_at)),
    )
