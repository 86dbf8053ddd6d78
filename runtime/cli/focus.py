"""What calls cost, as rows of the FinOps Open Cost and Usage Specification (FOCUS), version 1.2.

The columns are all that 1.2 makes mandatory and those of its others that a sidecar can fill;
what is ours begins with `x_`, as the specification wants it. A tenant is the billing account, an
agent the sub account. What was charged is billed, effective, contracted and list cost in one,
because a sidecar knows neither discounts nor what is amortised. Unit prices are left out: one
call is charged for several kinds of tokens, each with a price of its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from governor.amounts import Unit
from governor.target import CallKind
from runtime.cli.moments import after_month, month_of
from runtime.cli.money import exact_dollars

FOCUS_VERSION = "1.2"
MANDATORY = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd",
    "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost",
    "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ServiceCategory",
    "ServiceName",
)  # fmt: skip
FURTHER = (
    "BillingAccountType", "ChargeFrequency", "ConsumedQuantity", "ConsumedUnit", "InvoiceId",
    "PricingCategory", "ResourceId", "ResourceName", "ResourceType", "ServiceSubcategory",
    "SubAccountId", "SubAccountName", "SubAccountType",
)  # fmt: skip
OURS = (
    "x_CallId", "x_Calls", "x_CpuMs", "x_EnergyMj", "x_InputTokens", "x_OutputTokens", "x_Session",
    "x_Status", "x_ToolCalls", "x_UnifiedCost",
)  # fmt: skip
COLUMNS = (*sorted((*MANDATORY, *FURTHER)), *OURS)
# More groups than that are written out before their day is over: rows add up all the same.
GROUPS_MAX = 50_000
_OWN = "Flyball"
_OWN_BACKENDS = frozenset({"flyball", "local"})
_MS_PER_S = 1_000
_SUMMED = (
    Unit.COST_MICROUSD,
    Unit.INPUT_TOKENS,
    Unit.OUTPUT_TOKENS,
    Unit.TOOL_CALLS,
    Unit.CPU_MS,
    Unit.ENERGY_MJ,
)

Row = dict[str, str]


class Grain(StrEnum):
    """What a row is: a call, or all of an hour or a day that are of one kind."""

    CALL = "call"
    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What rows are told apart by."""

    period: datetime
    tenant: str
    agent: str
    kind: CallKind
    backend: str
    name: str
    call: str = ""
    session: str = ""
    status: str = ""


@dataclass(slots=True, kw_only=True)
class _Sum:
    """What the calls of a row add up to."""

    calls: int = 0
    unified_microusd: int = 0
    amounts: dict[Unit, int] = field(default_factory=lambda: dict.fromkeys(_SUMMED, 0))

    def add(self, item: Mapping[str, Any]) -> None:
        """Add a call."""
        self.calls += 1
        self.unified_microusd += item["unified_cost_microusd"]
        for unit in _SUMMED:
            self.amounts[unit] += item["charged"].get(unit.value, 0)


def focus_rows(
    items: Iterable[Mapping[str, Any]], *, grain: Grain, names: Mapping[str, str]
) -> Iterator[Row]:
    """Yield rows of calls as the admin API shows them, the one that ended last first.

    `names` are those of tenants. Calls that were charged nothing and used nothing are no
    charge: they are left out. No more is held than the groups of one period.
    """
    groups: dict[_Kind, _Sum] = {}
    period: datetime | None = None
    for item in items:
        # What was carved out for a sub-session is charged by the calls that used it.
        if item["kind"] == CallKind.SUB_SESSION or not any(item["charged"].values()):
            continue
        kind = _kind(item, grain)
        if groups and (kind.period != period or len(groups) >= GROUPS_MAX):
            yield from _written(groups, grain, names)
            groups = {}
        period = kind.period
        groups.setdefault(kind, _Sum()).add(item)
    yield from _written(groups, grain, names)


def _written(groups: Mapping[_Kind, _Sum], grain: Grain, names: Mapping[str, str]) -> Iterator[Row]:
    for kind, total in groups.items():
        yield _row(kind, total, grain=grain, billed_to=names.get(kind.tenant) or kind.tenant)


def _kind(item: Mapping[str, Any], grain: Grain) -> _Kind:
    ended = datetime.fromtimestamp(item["ended_at_ms"] // _MS_PER_S, tz=UTC)
    whose = {
        "tenant": item["tenant"],
        "agent": item["agent"],
        "kind": CallKind(item["kind"]),
        "backend": item["backend"],
        "name": item["name"],
    }
    match grain:
        case Grain.CALL:
            # A call is a charge of the second in which it ended: only then is it known.
            one = {"call": item["id"], "session": item["session"], "status": item["status"]}
            return _Kind(period=ended, **whose, **one)
        case Grain.HOUR:
            return _Kind(period=ended.replace(minute=0, second=0), **whose)
        case Grain.DAY:
            return _Kind(period=ended.replace(hour=0, minute=0, second=0), **whose)


_LENGTHS = {
    Grain.CALL: timedelta(seconds=1),
    Grain.HOUR: timedelta(hours=1),
    Grain.DAY: timedelta(days=1),
}


def _row(kind: _Kind, total: _Sum, *, grain: Grain, billed_to: str) -> Row:
    cost = exact_dollars(total.amounts[Unit.COST_MICROUSD])
    tokens = total.amounts[Unit.INPUT_TOKENS] + total.amounts[Unit.OUTPUT_TOKENS]
    quantity, unit = (tokens, "Tokens") if kind.kind is CallKind.MODEL else (total.calls, "Calls")
    category, subcategory, service = _service(kind)
    provider = _OWN if kind.backend in _OWN_BACKENDS else kind.backend or _OWN
    calls = "1 call" if total.calls == 1 else f"{total.calls} calls"
    return {
        **dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), cost),
        **dict.fromkeys(("ProviderName", "PublisherName", "InvoiceIssuerName"), provider),
        # Quantities are decimals to the specification, and some readers go by the point.
        **dict.fromkeys(("PricingQuantity", "ConsumedQuantity"), f"{quantity}.0"),
        **dict.fromkeys(("PricingUnit", "ConsumedUnit"), unit),
        **dict.fromkeys(("SubAccountId", "SubAccountName"), kind.agent),
        "BillingAccountId": kind.tenant,
        "BillingAccountName": billed_to,
        "BillingAccountType": "Tenant",
        "BillingCurrency": "USD",
        "BillingPeriodStart": _date(month_of(kind.period)),
        "BillingPeriodEnd": _date(after_month(kind.period)),
        "ChargeCategory": "Usage",
        "ChargeClass": "",
        "ChargeDescription": f"{calls} of {kind.name} by {kind.agent}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": _date(kind.period),
        "ChargePeriodEnd": _date(kind.period + _LENGTHS[grain]),
        "InvoiceId": "",
        "PricingCategory": "Standard",
        "ResourceId": f"{kind.kind.value}/{kind.backend}/{kind.name}",
        "ResourceName": kind.name,
        "ResourceType": kind.kind.value.capitalize(),
        "ServiceCategory": category,
        "ServiceSubcategory": subcategory,
        "ServiceName": service,
        "SubAccountType": "Agent",
        "x_CallId": kind.call,
        "x_Session": kind.session,
        "x_Status": kind.status,
        "x_Calls": str(total.calls),
        "x_UnifiedCost": exact_dollars(total.unified_microusd),
        "x_InputTokens": str(total.amounts[Unit.INPUT_TOKENS]),
        "x_OutputTokens": str(total.amounts[Unit.OUTPUT_TOKENS]),
        "x_ToolCalls": str(total.amounts[Unit.TOOL_CALLS]),
        "x_CpuMs": str(total.amounts[Unit.CPU_MS]),
        "x_EnergyMj": str(total.amounts[Unit.ENERGY_MJ]),
    }


def _service(kind: _Kind) -> tuple[str, str, str]:
    """Return the category, the subcategory and the name of what was used."""
    if kind.kind is CallKind.MODEL:
        return "AI and Machine Learning", "Generative AI", "Model calls"
    if kind.backend == "local":
        return "Compute", "Other (Compute)", "Local commands"
    if kind.backend == "flyball":
        return "AI and Machine Learning", "Other (AI and Machine Learning)", "Memory and governance"
    return "Integration", "API Management", "MCP tools"


def _date(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
