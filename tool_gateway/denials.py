"""Denials as the JSON that models and programs read."""

import json

from governor.denial import DenialReason, Denied, Remedy, RemedyAction, Shortage
from tool_gateway.results import DENIAL_META, ToolResult, text_block


def denial_json(denied: Denied) -> dict[str, object]:
    """Return the denial in its public shape (`interfaces`: Denial)."""
    shortage = denied.shortage
    shape: dict[str, object] = {
        "reason": denied.reason.value,
        "budget_id": None,
        "unit": None,
        "limit": None,
        "used": None,
        "reserved": None,
        "requested": None,
        "resets_at_ms": None,
    }
    if shortage is not None:
        shape.update(_shortage_json(shortage))
    shape["retry_after_ms"] = denied.retry_after_ms
    shape["remedy"] = {"action": denied.remedy.action.value, "text": denied.remedy.text}
    if denied.approval_id is not None:
        shape["approval_id"] = denied.approval_id
    shape["also"] = [_shortage_json(other) for other in denied.also]
    return shape


def denial_result(denied: Denied, *, has_output_schema: bool) -> ToolResult:
    """Return the denial as a tool result that the model can adapt to.

    Structured content is left out where the tool declares an output schema, because
    official clients validate it even on errors.
    """
    shape = denial_json(denied)
    return ToolResult(
        content=(text_block(json.dumps(shape, ensure_ascii=False)),),
        structured=None if has_output_schema else shape,
        is_error=True,
        meta={DENIAL_META: shape},
    )


def policy_denied(rule: str, tool: str) -> Denied:
    """Return the denial of a tool that the policy does not allow."""
    return Denied(
        reason=DenialReason.POLICY_DENIED,
        remedy=Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                f"The rule {rule!r} does not allow {tool}. Use another tool, or ask an "
                "administrator to allow it in flyball.toml."
            ),
        ),
    )


def isolation_unavailable(why: str) -> Denied:
    """Return the denial of a local command that this host cannot hold."""
    return Denied(
        reason=DenialReason.ISOLATION_UNAVAILABLE,
        remedy=Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                f"This host cannot enforce what the rule requires: {why}. An administrator can "
                'run `flyball doctor`, or set isolation = "best_effort" in the rule.'
            ),
        ),
    )


def ledger_unavailable() -> Denied:
    """Return the denial while budgets cannot be checked."""
    return Denied(
        reason=DenialReason.LEDGER_UNAVAILABLE,
        remedy=Remedy(
            action=RemedyAction.RETRY_LATER,
            text="Budgets cannot be checked at the moment, so nothing is started. Try again soon.",
        ),
    )


def overloaded(retry_after_ms: int) -> Denied:
    """Return the denial while the ledger's queue is full."""
    return Denied(
        reason=DenialReason.OVERLOADED,
        retry_after_ms=retry_after_ms,
        remedy=Remedy(
            action=RemedyAction.RETRY_LATER,
            text="Too many calls are waiting to be admitted. Try again in a moment.",
        ),
    )


def _shortage_json(shortage: Shortage) -> dict[str, object]:
    return {
        "budget_id": shortage.budget_id,
        "unit": shortage.unit.value,
        "limit": shortage.limit,
        "used": shortage.used,
        "reserved": shortage.reserved,
        "requested": shortage.requested,
        "resets_at_ms": shortage.resets_at_ms,
    }
