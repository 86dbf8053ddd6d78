import json
from dataclasses import replace

import pytest

from governor.amounts import NOTHING, Unit
from governor.denial import DenialReason, Denied, Remedy, RemedyAction, Shortage
from governor.events import Reserved, Settled, Warned
from governor.ids import BudgetId
from governor.policy import ToolRule
from governor.usage import Usage
from tests.governor.makers import amounts, balance, held
from tests.tool_gateway.makers import RULE, measured
from tool_gateway.denials import denial_result, ledger_unavailable, overloaded
from tool_gateway.metering import budget_meta, threshold_note, usage_json, usage_of
from tool_gateway.results import DENIAL_META, ToolResult, text_block, text_result

SHORTAGE = Shortage(
    budget_id=BudgetId("hourly"),
    unit=Unit.TOOL_CALLS,
    limit=10,
    used=7,
    reserved=2,
    requested=4,
    resets_at_ms=1_700_000_000_000,
)
DENIED = Denied(
    reason=DenialReason.BUDGET_EXHAUSTED,
    shortage=SHORTAGE,
    also=(SHORTAGE,),
    retry_after_ms=1_500,
    remedy=Remedy(action=RemedyAction.RETRY_LATER, text="Wait."),
)
SHORTAGE_JSON = {
    "budget_id": "hourly",
    "unit": "tool_calls",
    "limit": 10,
    "used": 7,
    "reserved": 2,
    "requested": 4,
    "resets_at_ms": 1_700_000_000_000,
}
DENIED_JSON = {
    "reason": "budget_exhausted",
    **SHORTAGE_JSON,
    "retry_after_ms": 1_500,
    "remedy": {"action": "retry_later", "text": "Wait."},
    "also": [SHORTAGE_JSON],
}


@pytest.mark.requirement("denial.shape")
def test_a_denial_has_exactly_its_public_shape() -> None:
    result = denial_result(DENIED, has_output_schema=False)

    assert result.is_error
    assert result.meta == {DENIAL_META: DENIED_JSON}


@pytest.mark.requirement("denial.shape")
def test_the_text_of_a_denial_is_the_same_json() -> None:
    result = denial_result(DENIED, has_output_schema=False)

    assert len(result.content) == 1
    assert json.loads(result.sole_text or "") == DENIED_JSON


@pytest.mark.requirement("denial.shape")
def test_structured_content_is_left_out_where_clients_would_validate_it() -> None:
    assert denial_result(DENIED, has_output_schema=True).structured is None
    assert denial_result(DENIED, has_output_schema=False).structured is not None


@pytest.mark.requirement("denial.shape")
def test_a_denial_without_a_budget_has_the_same_fields_with_null_in_them() -> None:
    shape = denial_result(ledger_unavailable(), has_output_schema=False).meta[DENIAL_META]

    assert isinstance(shape, dict)
    assert shape.keys() == DENIED_JSON.keys()
    assert [shape[name] for name in SHORTAGE_JSON] == [None] * len(SHORTAGE_JSON)
    assert (shape["also"], shape["retry_after_ms"]) == ([], None)


def test_an_overload_says_when_to_try_again() -> None:
    assert overloaded(1_000).retry_after_ms == 1_000


def test_a_result_goes_to_the_wire_without_the_parts_that_it_has_not() -> None:
    plain = text_result("hi")
    full = ToolResult(content=(), structured={"a": 1}, is_error=True, meta={"k": "v"})

    assert plain.to_wire() == {"content": [{"type": "text", "text": "hi"}], "isError": False}
    assert full.to_wire() == {
        "content": [],
        "isError": True,
        "structuredContent": {"a": 1},
        "_meta": {"k": "v"},
    }


def test_the_size_of_a_result_is_counted_in_bytes() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    size = ToolResult(content=(text_block("é"), image)).size_bytes

    assert size == 2 + len(json.dumps(image, separators=(",", ":")))


def test_only_a_lone_text_block_is_the_sole_text() -> None:
    assert text_result("a").sole_text == "a"
    assert ToolResult(content=(text_block("a"), text_block("b"))).sole_text is None
    assert ToolResult(content=({"type": "image", "data": ""},)).sole_text is None
    assert ToolResult(content=()).sole_text is None


def test_meta_is_added_to_and_never_lost() -> None:
    result = text_result("a", meta={"theirs": 1}).with_meta(ours=2, absent=None)

    assert result.meta == {"theirs": 1, "ours": 2}


def usage(rule: ToolRule = RULE, backend: Usage | None = None, **held_units: int) -> Usage:
    return usage_of(
        rule,
        held=amounts(**held_units),
        wall_ms=30,
        text_chars=9,
        backend=backend,
        unmeasurable={Unit.CPU_MS: "elsewhere"},
    )


def test_a_call_counts_once_at_its_price_and_its_time() -> None:
    assert usage().measured == amounts(tool_calls=1, cost_microusd=7, wall_ms=30, context_tokens=3)


def test_what_the_backend_measured_replaces_what_was_assumed() -> None:
    reported = usage(backend=measured(cost_microusd=2, cpu_ms=5))

    assert reported.measured.of(Unit.COST_MICROUSD) == 2
    assert Unit.CPU_MS not in reported.unmeasured


def test_what_nobody_measured_is_named_with_the_best_reason() -> None:
    unknown = usage(cpu_ms=40, input_tokens=5, turns=1)

    assert unknown.unmeasured == {
        Unit.CPU_MS: "elsewhere",
        Unit.INPUT_TOKENS: "the call ended before it was measured",
    }


def test_the_backends_reason_is_believed_before_the_general_one() -> None:
    backend = Usage(measured=NOTHING, unmeasured={Unit.CPU_MS: "the counter broke"})

    assert usage(backend=backend, cpu_ms=40).unmeasured[Unit.CPU_MS] == "the counter broke"


def test_usage_in_json_is_null_where_it_is_unknown() -> None:
    shape = usage_json(Usage(measured=amounts(tool_calls=1), unmeasured={Unit.CPU_MS: "elsewhere"}))

    assert shape == {
        "tool_calls": 1,
        "cpu_ms": None,
        "memory_peak_bytes": None,
        "unmeasured": {"cpu_ms": "elsewhere"},
    }


@pytest.mark.requirement("budget.remaining-is-shown")
def test_what_remains_is_shown_as_the_settlement_leaves_it() -> None:
    reserved: Reserved = held([balance(limit=10)], amounts(tool_calls=4))
    standing = balance(limit=10, settled=8, reserved=1)
    account = replace(standing.account, warn_at=(5, 8), warn_at_permille=(500, 800))
    warned = standing._replace(account=account)
    settled = Settled(
        reservation=reserved.reservation,
        freed=(),
        charged=(),
        standing=(warned,),
        warned=(Warned(warned, 5), Warned(warned, 8)),
    )

    (shown,) = budget_meta(settled)

    assert (shown["used"], shown["reserved"], shown["remaining"]) == (8, 1, 1)
    assert shown["warned_at"] == [
        {"permille": 500, "amount": 5},
        {"permille": 800, "amount": 8},
    ]
    assert threshold_note(settled) == (
        "[budget notice: 80 % of the tenant budget house is reached, 8 of 10 tool calls used]"
    )
