"""Costs as FOCUS 1.2 wants them: its columns, types, allowed values and the sums.

The columns and values are those of the specification's own requirements model for version 1.2.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from governor.amounts import Unit
from runtime.cli import focus
from runtime.cli.focus import COLUMNS, OURS, Grain, Row, focus_rows

# "MUST be present in a FOCUS dataset", CostAndUsage-D-*-M of the model.
MUST_BE_PRESENT = {
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd",
    "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost",
    "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ServiceCategory",
    "ServiceName",
}  # fmt: skip
RECOMMENDED = {"ChargeFrequency", "InvoiceId", "ServiceSubcategory"}
ALL_OF_1_2 = MUST_BE_PRESENT | RECOMMENDED | {
    "AvailabilityZone", "BillingAccountType", "CapacityReservationId", "CapacityReservationStatus",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountQuantity", "CommitmentDiscountStatus", "CommitmentDiscountType",
    "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit", "ContractedUnitPrice",
    "ListUnitPrice", "PricingCategory", "PricingCurrency", "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice", "RegionId", "RegionName",
    "ResourceId", "ResourceName", "ResourceType", "SkuId", "SkuMeter", "SkuPriceDetails",
    "SkuPriceId", "SubAccountId", "SubAccountName", "SubAccountType", "Tags",
}  # fmt: skip
MAY_BE_NULL = {"ChargeClass", "InvoiceId", *OURS}
DECIMALS = (
    "BilledCost", "EffectiveCost", "ListCost", "ContractedCost", "PricingQuantity",
    "ConsumedQuantity", "x_UnifiedCost",
)  # fmt: skip
ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"", "Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other"},
    "BillingCurrency": {"USD"},
}
SUBCATEGORIES = {
    "AI and Machine Learning": {"Generative AI", "Other (AI and Machine Learning)"},
    "Compute": {"Serverless Compute", "Other (Compute)"},
    "Integration": {"API Management", "Other (Integration)"},
}
NUMBER = re.compile(r"^-?\d+\.\d+$")
MOMENT = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
NOON = int(datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC).timestamp() * 1_000)


def call(number: int, **more: Any) -> dict[str, Any]:
    charged = dict.fromkeys((unit.value for unit in Unit), 0) | more.pop("charged", {})
    return {
        "id": f"call_{number}",
        "kind": "model",
        "name": "gpt-4o",
        "tenant": "acme",
        "agent": "coder",
        "session": "ses_1",
        "status": "ok",
        "backend": "openai",
        "ended_at_ms": NOON - number * 3_600_000,
        "charged": charged,
        "unified_cost_microusd": charged["cost_microusd"] + 5,
        **more,
    }


def calls() -> list[dict[str, Any]]:
    """A few of every kind, over three days, the last one first."""
    tokens = {"input_tokens": 100, "output_tokens": 23}
    found = []
    for number in range(60):
        cost = {"cost_microusd": 1_000_003 + number}
        match number % 5:
            case 0 | 1:
                found.append(call(number, charged=cost | tokens))
            case 2:
                local = {"kind": "tool", "name": "shell_run", "backend": "local"}
                found.append(call(number, **local, charged={"cpu_ms": 9, "tool_calls": 1}))
            case 3:
                tool = {"kind": "tool", "name": "files__read", "backend": "files"}
                found.append(call(number, **tool, charged=cost | {"tool_calls": 1}))
            case _:
                found.append(call(number, status="denied"))
    return found


def is_after(row: Mapping[str, str], *names: str) -> Iterator[str]:
    yield from (row[name] for name in names)


@pytest.fixture(params=list(Grain))
def rows(request: pytest.FixtureRequest) -> list[Row]:
    return list(focus_rows(calls(), grain=request.param, names={"acme": "Acme Corp."}))


@pytest.mark.requirement("commands.focus")
def test_every_mandatory_column_is_there_and_no_other_name_is_made_up(rows: list[Row]) -> None:
    assert set(COLUMNS) >= MUST_BE_PRESENT | RECOMMENDED
    assert {name for name in COLUMNS if not name.startswith("x_")} <= ALL_OF_1_2
    assert len(set(COLUMNS)) == len(COLUMNS)
    assert all(set(row) == set(COLUMNS) for row in rows)


@pytest.mark.requirement("commands.focus")
def test_values_are_of_the_types_and_among_those_that_are_allowed(rows: list[Row]) -> None:
    for row in rows:
        assert {name for name in COLUMNS if not row[name]} <= MAY_BE_NULL
        assert all(NUMBER.match(row[name]) for name in DECIMALS)
        for name, allowed in ALLOWED.items():
            assert row[name] in allowed
        assert row["ServiceSubcategory"] in SUBCATEGORIES[row["ServiceCategory"]]
        for part, end in product(("Billing", "Charge"), ("Start", "End")):
            assert MOMENT.match(row[f"{part}Period{end}"])


@pytest.mark.requirement("commands.focus")
def test_a_charge_lies_within_its_billing_period_a_month(rows: list[Row]) -> None:
    for row in rows:
        moments = is_after(
            row, "BillingPeriodStart", "ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodEnd"
        )
        began, charged_from, charged_until, ended = moments
        assert began <= charged_from < charged_until <= ended
        assert (began, ended) == ("2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z")


@pytest.mark.requirement("commands.focus")
def test_what_rows_add_up_to_is_what_was_charged_to_the_last_digit(rows: list[Row]) -> None:
    charged = [item["charged"] for item in calls()]

    for name in ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"):
        micro = sum(Decimal(row[name]) for row in rows) * 1_000_000
        assert micro == sum(each["cost_microusd"] for each in charged)
    assert sum(int(row["x_InputTokens"]) for row in rows) == 24 * 100
    assert sum(int(row["x_Calls"]) for row in rows) == 48


def test_calls_that_were_charged_nothing_and_allowances_are_no_charge() -> None:
    carved = call(1, kind="sub_session", charged={"cost_microusd": 7})

    assert list(focus_rows([call(0, status="denied"), carved], grain=Grain.DAY, names={})) == []


def test_a_row_of_a_day_is_one_agents_use_of_one_thing() -> None:
    rows = list(focus_rows(calls(), grain=Grain.DAY, names={"acme": "Acme Corp."}))

    assert len(rows) == 3 * 3
    first = rows[0]
    assert first["ChargePeriodStart"] == "2026-02-28T00:00:00Z"
    assert (first["BillingAccountName"], first["SubAccountId"]) == ("Acme Corp.", "coder")
    assert (first["ProviderName"], first["ResourceName"]) == ("openai", "gpt-4o")
    assert (first["PricingUnit"], first["PricingQuantity"]) == ("Tokens", f"{10 * 123}.0")
    assert first["x_CallId"] == ""


def read_for_one_row(items: list[dict[str, Any]]) -> int:
    """Return how many calls were read when the first row is there."""
    reading = iter(items)
    next(focus_rows(reading, grain=Grain.DAY, names={}))
    return len(items) - len(list(reading))


def test_rows_of_a_day_are_written_when_it_is_over() -> None:
    days = [call(24 * day, charged={"turns": 1}) for day in range(5)]

    assert read_for_one_row(days) == 2


def test_no_more_groups_are_held_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(focus, "GROUPS_MAX", 3)
    many = [call(0, name=f"model-{number % 7}", charged={"turns": 1}) for number in range(70)]

    rows = list(focus_rows(many, grain=Grain.DAY, names={}))

    assert read_for_one_row(many) == 4
    assert sum(int(row["x_Calls"]) for row in rows) == 70
    assert {row["ResourceName"] for row in rows} == {f"model-{number}" for number in range(7)}
