"""Approvals: what people are asked before a call runs, and their answers."""

from typing import Annotated

import anyio
from fastapi import Query

from governor.approval import ApprovalEvent
from governor.ids import ApprovalId
from memory_store.audit import Actor
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.parts import AdminParts
from runtime.admin.shapes.approvals import Answer, ApprovalFilters, ApprovalOut, approval_out
from runtime.admin.shapes.fields import Page, page_of

ROUTES = governed_routes("/approvals", tag="approvals")

_ANSWERS = WITH_BODY | problems(404, 409)
_NO_WORDS = Answer()


@ROUTES.get("", summary="List approvals")
async def list_approvals(
    parts: Parts, filters: Annotated[ApprovalFilters, Query()]
) -> Page[ApprovalOut]:
    """Return approvals, the one asked for last first."""
    found = await parts.store.approvals.page(
        tenant=filters.tenant, state=filters.state, cursor=filters.cursor, limit=filters.limit
    )
    return page_of(found, approval_out)


@ROUTES.get("/{approval_id}", summary="Read an approval", responses=problems(404))
async def read_approval(parts: Parts, approval_id: ApprovalId) -> ApprovalOut:
    """Return the approval."""
    return approval_out(await parts.store.approvals.get(approval_id))


@ROUTES.post("/{approval_id}/approve", summary="Let a call run, once", responses=_ANSWERS)
async def approve(
    parts: Parts, by: By, approval_id: ApprovalId, answer: Answer = _NO_WORDS
) -> ApprovalOut:
    """Return the approval after the yes; the first answer stands, a later one is 409."""
    return await _answered(parts, by, approval_id, ApprovalEvent.APPROVE, answer)


@ROUTES.post("/{approval_id}/reject", summary="Refuse a call", responses=_ANSWERS)
async def reject(
    parts: Parts, by: By, approval_id: ApprovalId, answer: Answer = _NO_WORDS
) -> ApprovalOut:
    """Return the approval after the no; what was held for the call is free."""
    return await _answered(parts, by, approval_id, ApprovalEvent.REJECT, answer)


async def _answered(
    parts: AdminParts, by: Actor, approval_id: ApprovalId, event: ApprovalEvent, answer: Answer
) -> ApprovalOut:
    # Shielded: an administrator who hangs up must not leave an answer that wakes nobody.
    with anyio.CancelScope(shield=True):
        approval = await parts.store.approvals.decide(
            approval_id, event, by=by, reason=answer.reason, now_ms=parts.clock.now_ms()
        )
        await parts.approver.follow(approval)
    return approval_out(approval)
