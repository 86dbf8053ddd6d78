"""Notices as rows: what budgets, denials and approvals have to tell an administrator."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from sqlalchemy import bindparam, insert

from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.approval import Approval
from governor.call import CallRecord
from governor.denial import Shortage
from governor.denial_tally import DenialsSeen
from governor.events import Warned
from memory_store.rows import json_of
from memory_store.statement import Driver, Statement, Value
from memory_store.tables import notices

# The release before these kinds takes every row for a budget's, in a unit that it knows.
NO_BUDGET = ""
_NO_UNIT = Unit.TOOL_CALLS.value
_NAMES = ("at_ms", "tenant", "kind", "budget_id", "subject", "unit", "call_id", "detail")
_INSERT = Statement(insert(notices).values({name: bindparam(name) for name in _NAMES}))


class NoticeKind(StrEnum):
    """What a notice is about."""

    THRESHOLD = "threshold"
    WOULD_DENY = "would_deny"
    DENIAL = "denial"
    APPROVAL = "approval"


def threshold(record: CallRecord, warned: Warned) -> dict[str, Value]:
    """Return the notice that a settlement brought an account to a threshold."""
    balance, at = warned
    return {
        "at_ms": record.ended_at_ms,
        "tenant": record.chain.tenant,
        "kind": "threshold",
        "budget_id": balance.key.budget_id,
        "subject": balance.key.subject,
        "unit": balance.key.unit.value,
        "call_id": record.call_id,
        "detail": json_of({"at": at, "used": balance.settled, "limit": balance.account.limit}),
    }


def would_deny(request: AdmissionRequest, shortage: Shortage) -> dict[str, Value]:
    """Return the notice that a budget would have denied a call, did it not only observe."""
    return {
        "at_ms": request.now_ms,
        "tenant": request.chain.tenant,
        "kind": "would_deny",
        "budget_id": shortage.budget_id,
        "subject": request.chain.session,
        "unit": shortage.unit.value,
        "call_id": request.call_id,
        "detail": json_of(
            {
                "limit": shortage.limit,
                "used": shortage.used,
                "reserved": shortage.reserved,
                "requested": shortage.requested,
            }
        ),
    }


def denials(seen: DenialsSeen, *, now_ms: int) -> dict[str, Value]:
    """Return the notice that calls were denied."""
    short = seen.shortage
    detail: dict[str, object] = {
        "reason": seen.reason.value,
        "count": seen.count,
        "since_ms": seen.since_ms,
        "kind": seen.kind.value,
        "name": seen.name,
    }
    if short is not None:
        detail |= {"limit": short.limit, "used": short.used, "reserved": short.reserved}
        detail["requested"] = short.requested
    return {
        "at_ms": now_ms,
        "tenant": seen.tenant,
        "kind": NoticeKind.DENIAL.value,
        "budget_id": NO_BUDGET if short is None else short.budget_id,
        "subject": seen.agent,
        "unit": _NO_UNIT if short is None else short.unit.value,
        "call_id": seen.call_id,
        "detail": json_of(detail),
    }


def asked(approval: Approval, *, now_ms: int) -> dict[str, Value]:
    """Return the notice that a person is asked, or what became of that; not of what arguments."""
    return {
        "at_ms": now_ms,
        "tenant": approval.chain.tenant,
        "kind": NoticeKind.APPROVAL.value,
        "budget_id": NO_BUDGET,
        "subject": approval.chain.agent,
        "unit": _NO_UNIT,
        "call_id": approval.call_id,
        "detail": json_of(
            {
                "approval_id": approval.approval_id,
                "state": approval.state.value,
                "tool": approval.tool,
                "rule": approval.rule,
                "session": approval.chain.session,
                "expires_at_ms": approval.expires_at_ms,
                "decided_by": approval.decided_by,
                "reason": approval.reason,
            }
        ),
    }


def insert_notices(driver: Driver, rows: Sequence[Mapping[str, Value]]) -> None:
    """Store the notices, in the transaction that caused them."""
    _INSERT.run_many(driver, rows)
