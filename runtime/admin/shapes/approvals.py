"""Approvals as JSON."""

from typing import Annotated

from pydantic import Field

from governor.amounts import Unit
from governor.approval import Approval, ApprovalState
from governor.ids import ApprovalId, CallId, PrincipalId, SessionId, TenantId, ToolName, TurnId
from runtime.admin.shapes.fields import Out, Paging, Shape, limits_shape

_REASON_CHARS_MAX = 1000


class ApprovalFilters(Paging):
    """Which approvals are wanted."""

    tenant: TenantId | None = None
    state: ApprovalState | None = None


class Answer(Shape):
    """What a person says beside yes or no; the reason of a no reaches the model."""

    reason: Annotated[str, Field(max_length=_REASON_CHARS_MAX)] = ""


class ApprovalOut(Out):
    """One question to a person; `arguments` is what records keep of them."""

    id: ApprovalId
    state: ApprovalState
    call: CallId
    tenant: TenantId
    agent: PrincipalId
    session: SessionId
    turn: TurnId | None
    tool: ToolName
    arguments: str
    arguments_sha256: str
    rule: str
    held: dict[Unit, int]
    created_at_ms: int
    expires_at_ms: int
    decided_at_ms: int | None
    decided_by: str | None
    reason: str


def approval_out(approval: Approval) -> ApprovalOut:
    """Return an approval as it is shown."""
    return ApprovalOut(
        id=approval.approval_id,
        state=approval.state,
        call=approval.call_id,
        tenant=approval.chain.tenant,
        agent=approval.chain.agent,
        session=approval.chain.session,
        turn=approval.turn,
        tool=approval.tool,
        arguments=approval.arguments,
        arguments_sha256=approval.arguments_hash,
        rule=approval.rule,
        held=limits_shape(approval.estimate),
        created_at_ms=approval.created_at_ms,
        expires_at_ms=approval.expires_at_ms,
        decided_at_ms=approval.decided_at_ms,
        decided_by=approval.decided_by,
        reason=approval.reason,
    )
