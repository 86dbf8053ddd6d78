"""Notices as JSON."""

from pydantic import Field, JsonValue

from governor.amounts import Unit
from governor.ids import TenantId
from memory_store.notices import NoticeView
from runtime.admin.shapes.fields import Out, Paging
from runtime.webhook import notice_json


class NoticeFilters(Paging):
    """Which notices are wanted."""

    tenant: TenantId | None = None


class NoticeOut(Out):
    """What a budget has to tell: a threshold that was reached, or a call it would have denied."""

    seq: int
    at_ms: int
    tenant: TenantId
    kind: str
    budget_id: str
    subject: str
    unit: Unit
    call_id: str
    detail: dict[str, JsonValue]
    delivered_at_ms: int | None = Field(description="when the webhook took it; null: not yet")


def notice_out(view: NoticeView) -> NoticeOut:
    """Return a notice as it is shown."""
    return NoticeOut.model_validate({**notice_json(view), "delivered_at_ms": view.delivered_at_ms})
