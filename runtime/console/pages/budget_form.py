"""A budget as a form, and a form as a budget: amounts in the units that people write."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from governor.amounts import Unit

_MICRO = 1_000_000
_DIGITS_MAX = 15
_SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
_PERMILLE_PER_PERCENT = 10
_PERMILLE_MAX = 10_000  # the API says what is too much; this is what is read at all
DAYS = (1, 7, 14, 30, 90)
DAYS_USUAL = 7
USUAL_UNITS = (
    Unit.COST_MICROUSD,
    Unit.INPUT_TOKENS,
    Unit.OUTPUT_TOKENS,
    Unit.TOOL_CALLS,
    Unit.TURNS,
    Unit.CPU_MS,
)
MORE_UNITS = tuple(unit for unit in Unit if unit not in USUAL_UNITS)
_WHOLE = "write a whole number from 0 on"
_PATTERNS = ("tool", "upstream", "tier")

Fields = Mapping[str, str]
Faults = dict[str, str]


def blank(tenant: str | None) -> dict[str, str]:
    """Return the fields of a budget that nobody has filled in."""
    return {
        "tenant": tenant or "",
        "scope": "agent",
        "kind": "allowance",
        "window": "calendar",
        "calendar": "day",
        "time_zone": "UTC",
        "length": "1",
        "length_unit": "hours",
        "mode": "enforce",
        "overdraft": "deny",
        **dict.fromkeys(_PATTERNS, "*"),
    }


def fields_of_budget(budget: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields that show a budget of the API."""
    fields = blank(budget["tenant"])
    for name in ("id", "scope", "kind", "mode", "overdraft"):
        fields[name] = budget[name]
    fields["subject"] = budget["subject"] or ""
    fields["burst"] = "" if budget["burst"] is None else str(budget["burst"])
    fields |= {name: budget["match"][name] for name in _PATTERNS}
    fields["warn_at"] = ", ".join(
        f"{permille / _PERMILLE_PER_PERCENT:g}" for permille in budget["warn_at_permille"]
    )
    for unit, amount in budget["limits"].items():
        fields[f"limit.{unit}"] = _written(amount, unit)
    return fields | _fields_of_window(budget["window"])


def _fields_of_window(window: str | Mapping[str, Any]) -> dict[str, str]:
    if isinstance(window, str):
        return {"window": window}
    if "calendar" in window:
        found = {"window": "calendar", "calendar": window["calendar"]}
        return found | {"time_zone": window["time_zone"]}
    key = "every_s" if "every_s" in window else "last_s"
    name, step = next(
        (name, step) for name, step in reversed(_SECONDS.items()) if window[key] % step == 0
    )
    found = {"window": key, "length": str(window[key] // step), "length_unit": name}
    buckets = window.get("buckets")
    return found if buckets is None else found | {"buckets": str(buckets)}


def budget_of_fields(fields: Fields) -> tuple[dict[str, Any], Faults]:
    """Return the budget that the fields say, as the API takes it, and what cannot be read."""
    faults: Faults = {}
    body: dict[str, Any] = {
        "scope": fields.get("scope", ""),
        "subject": fields.get("subject") or None,
        "limits": _limits(fields, faults),
        "window": _window(fields, faults),
        "match": {name: fields.get(name) or "*" for name in _PATTERNS},
        "mode": fields.get("mode", ""),
        "overdraft": fields.get("overdraft", ""),
        "warn_at_permille": _warnings(fields, faults),
    }
    burst = fields.get("burst", "")
    if burst:
        body["burst"] = _whole(burst, "burst", faults)
    elif fields.get("kind") == "rate":
        body["burst"] = None  # said, so that one that there was goes
    if fields.get("allow_unknown"):
        body["allow_unknown"] = True
    return body, faults


def amount_of(text: str, unit: str) -> int | None:
    """Return an amount as it is written: money in dollars, everything else in its own unit.

    None where it is no amount, or money finer than a millionth of a dollar.
    """
    plain = text.replace(" ", "").replace("\N{NARROW NO-BREAK SPACE}", "").lstrip("$")
    try:
        value = Decimal(plain)
    except InvalidOperation:
        return None
    if not value.is_finite() or value.adjusted() > 30:  # noqa: PLR2004 - beyond any amount
        return None
    scaled = value * _MICRO if unit == Unit.COST_MICROUSD else value
    return int(scaled) if scaled == scaled.to_integral_value() and scaled >= 0 else None


def _written(amount: int, unit: str) -> str:
    if unit != Unit.COST_MICROUSD:
        return str(amount)
    return format(Decimal(amount) / _MICRO, "f")


def _limits(fields: Fields, faults: Faults) -> dict[str, int]:
    found: dict[str, int] = {}
    for unit in Unit:
        text = fields.get(f"limit.{unit.value}", "")
        if not text:
            continue
        amount = amount_of(text, unit)
        if amount is None:
            is_money = unit is Unit.COST_MICROUSD
            told = "write dollars, as 2.50" if is_money else _WHOLE
            faults[f"limit.{unit.value}"] = told
        else:
            found[unit.value] = amount
    if not found and not faults:
        faults["limits"] = "limit one unit at least"
    return found


def _window(fields: Fields, faults: Faults) -> object:
    match fields.get("window"):
        case "calendar":
            zone = fields.get("time_zone") or "UTC"
            return {"calendar": fields.get("calendar", "day"), "time_zone": zone}
        case "every_s" | "last_s" as kind:
            length = _whole(fields.get("length", ""), "length", faults)
            seconds = (length or 0) * _SECONDS.get(fields.get("length_unit", ""), 1)
            buckets = fields.get("buckets", "")
            if kind == "last_s" and buckets:
                return {kind: seconds, "buckets": _whole(buckets, "buckets", faults)}
            return {kind: seconds}
        case _:
            return "lifetime"


def _warnings(fields: Fields, faults: Faults) -> list[int]:
    found = []
    for text in fields.get("warn_at", "").replace("%", "").split(","):
        if not text.strip():
            continue
        try:
            permille = Decimal(text.strip()) * _PERMILLE_PER_PERCENT
        except ArithmeticError:
            permille = Decimal(0)
        if permille.is_nan():
            permille = Decimal(0)
        if not 0 < permille < _PERMILLE_MAX or permille != int(permille):
            faults["warn_at"] = "write percentages, as 80, 95"
            return []
        found.append(int(permille))
    return sorted(set(found))


def _whole(text: str, name: str, faults: Faults) -> int | None:
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        return int(text)
    faults[name] = _WHOLE
    return None


def number_of(text: str, usual: int) -> int:
    """Return a number that a form or an address says, what is usual where it says none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else usual
