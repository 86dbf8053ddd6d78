"""Sessions and their bills as JSON."""

from typing import Annotated

from pydantic import Field

from governor.amounts import Unit
from governor.call import CallStatus
from governor.ids import PrincipalId, SessionId, TenantId
from governor.unified_cost import UnifiedPrices
from memory_store.calls import Bill
from memory_store.sessions import SessionView
from runtime.admin.shapes.fields import Out, Paging, limits_shape
from runtime.admin.shapes.productivity import FiguresOut
from runtime.admin.shapes.turns import TurnsOut


class SessionFilters(Paging):
    """Which sessions are wanted."""

    tenant: TenantId | None = None
    agent: PrincipalId | None = None
    open: Annotated[bool | None, Field(description="only those that are open, or closed")] = None


class SessionOut(Out):
    """One run of an agent; `name` is what the agent calls it.

    `frozen_by` is an administrator, or `loop breaker` where it went round in circles.
    """

    id: SessionId
    tenant: TenantId
    agent: PrincipalId
    name: str
    opened_at_ms: int
    last_seen_at_ms: int
    closed_at_ms: int | None
    closed_by: str | None
    frozen_at_ms: int | None
    frozen_by: str | None


class BillOut(Out):
    """What a session was charged so far.

    `unmeasured` names the units of which a call could not be measured: what was held for it
    was charged. `unified_cost_microusd` is the money with the policy's price for tool calls and
    processor time, at the prices of today.
    """

    charged: dict[Unit, int]
    unified_cost_microusd: int
    calls: dict[CallStatus, int]
    calls_total: int
    unmeasured: list[Unit]
    memory_peak_bytes: int | None
    first_started_at_ms: int | None
    last_ended_at_ms: int | None


class SessionWithBillOut(SessionOut):
    """A session, what it was charged, its turns and what they brought."""

    bill: BillOut
    turns: TurnsOut
    productivity: FiguresOut


class KilledOut(Out):
    """A session after it was ended, and how many of its calls ran at that moment."""

    session: SessionOut
    calls_stopped: int


class FrozenOut(Out):
    """A session after it was frozen, and how many of its local commands stand still."""

    session: SessionOut
    commands_frozen: int


class ResumedOut(Out):
    """A session after it was resumed, and how many of its local commands go on.

    `was_paused` tells whether it had been frozen, by an administrator or the loop breaker.
    """

    session: SessionOut
    commands_resumed: int
    was_paused: bool


def session_out(view: SessionView) -> SessionOut:
    """Return a session as it is shown."""
    return SessionOut(
        id=view.session_id,
        tenant=view.tenant,
        agent=view.agent,
        name=view.name,
        opened_at_ms=view.opened_at_ms,
        last_seen_at_ms=view.last_seen_at_ms,
        closed_at_ms=view.closed_at_ms,
        closed_by=view.closed_by,
        frozen_at_ms=view.frozen_at_ms,
        frozen_by=view.frozen_by,
    )


def session_with_bill_out(
    view: SessionView,
    bill: Bill,
    *,
    prices: UnifiedPrices,
    turns: TurnsOut,
    productivity: FiguresOut,
) -> SessionWithBillOut:
    """Return a session as it is shown by itself."""
    return SessionWithBillOut(
        **dict(session_out(view)),
        bill=_bill_out(bill, prices),
        turns=turns,
        productivity=productivity,
    )


def _bill_out(bill: Bill, prices: UnifiedPrices) -> BillOut:
    return BillOut(
        charged=limits_shape(bill.charged),
        unified_cost_microusd=prices.cost_microusd(bill.charged),
        calls=dict(bill.calls),
        calls_total=bill.calls_total,
        unmeasured=list(bill.unmeasured),
        memory_peak_bytes=bill.memory_peak_bytes,
        first_started_at_ms=bill.first_started_at_ms,
        last_ended_at_ms=bill.last_ended_at_ms,
    )
