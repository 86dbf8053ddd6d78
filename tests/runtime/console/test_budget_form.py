from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import AMOUNT_MAX, Unit
from runtime.console.pages.budget_form import amount_of, budget_of_fields, fields_of_budget

WINDOWS = st.sampled_from(
    [
        "lifetime",
        {"calendar": "month", "time_zone": "Europe/Lisbon"},
        {"every_s": 90},
        {"every_s": 7_200},
        {"last_s": 86_400, "buckets": 24},
        {"last_s": 61, "buckets": None},
    ]
)
LIMITS = st.dictionaries(
    st.sampled_from([unit.value for unit in Unit]), st.integers(0, AMOUNT_MAX), min_size=1
)


@st.composite
def budgets(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "id": "b",
        "tenant": "acme",
        "scope": draw(st.sampled_from(["tenant", "agent", "session"])),
        "subject": draw(st.none() | st.just("ses_one")),
        "limits": draw(LIMITS),
        "window": draw(WINDOWS),
        "kind": "allowance",
        "burst": draw(st.none() | st.integers(1, 10**12)),
        "match": {"tool": draw(st.sampled_from(["*", "files__*"])), "upstream": "*", "tier": "*"},
        "mode": "enforce",
        "overdraft": "deny",
        "warn_at_permille": draw(st.sampled_from([[], [800], [500, 955]])),
        "version": 3,
    }


@pytest.mark.requirement("session-pages.budgets")
@given(budgets())
def test_a_budget_that_is_shown_and_sent_back_is_the_same(budget: dict[str, Any]) -> None:
    body, faults = budget_of_fields(fields_of_budget(budget))

    assert not faults
    window = budget["window"]
    if isinstance(window, dict) and window.get("buckets", 0) is None:
        window = {"last_s": window["last_s"]}
    kept = {name: budget[name] for name in body if name not in {"window", "burst"}}
    assert {name: body[name] for name in kept} == kept
    assert body["window"] == window
    assert body.get("burst") == budget["burst"]


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("2.50", "cost_microusd", 2_500_000),
        ("$0.000001", "cost_microusd", 1),
        ("1 000", "tool_calls", 1_000),
        ("0.0000001", "cost_microusd", None),
        ("1.5", "tool_calls", None),
        ("-1", "tool_calls", None),
        ("1e400000", "tool_calls", None),
        ("NaN", "cost_microusd", None),
        ("a lot", "cost_microusd", None),
    ],
)
def test_money_is_written_in_dollars_and_all_else_in_whole_numbers(
    text: str, unit: str, amount: int | None
) -> None:
    assert amount_of(text, unit) == amount


@given(
    st.dictionaries(
        st.sampled_from(["window", "length", "buckets", "burst", "warn_at", "limit.turns", "tool"]),
        st.text(max_size=30),
    )
)
def test_whatever_is_written_is_read_or_named_as_a_fault(fields: dict[str, str]) -> None:
    body, faults = budget_of_fields(fields)

    assert set(body) >= {"limits", "window", "match"}
    assert bool(body["limits"]) or bool(faults)


def test_the_burst_of_a_rate_that_is_taken_out_of_the_form_goes() -> None:
    rate = {"kind": "rate", "limit.tool_calls": "5", "window": "every_s", "length": "1"}

    assert budget_of_fields(rate)[0]["burst"] is None
    assert "burst" not in budget_of_fields(rate | {"kind": "allowance"})[0]


@pytest.mark.parametrize("text", ["1e999999999", "NaN", "Infinity", "0", "-5", "12.34", "9" * 5000])
def test_warnings_that_are_no_percentages_are_named_and_cost_nothing(text: str) -> None:
    _, faults = budget_of_fields({"limit.turns": "1", "warn_at": text})

    assert set(faults) == {"warn_at"}
