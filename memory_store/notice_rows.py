"""Notices as rows: what budgets have to tell an administrator."""

from collections.abc import Mapping, Sequence

from sqlalchemy import bindparam, insert

from governor.admission import AdmissionRequest
from governor.call import CallRecord
from governor.denial import Shortage
from governor.events import Warned
from memory_store.rows import json_of
from memory_store.statement import Driver, Statement, Value
from memory_store.tables import notices

_NAMES = ("at_ms", "tenant", "kind", "budget_id", "subject", "unit", "call_id", "detail")
_INSERT = Statement(insert(notices).values({name: bindparam(name) for name in _NAMES}))


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


def insert_notices(driver: Driver, rows: Sequence[Mapping[str, Value]]) -> None:
    """Store the notices, in the transaction that caused them."""
    _INSERT.run_many(driver, rows)
