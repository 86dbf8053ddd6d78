"""Notices as JSON."""

from pydantic import Field, JsonValue

from governor.amounts import Unit
from governor.ids import TenantId
from memory_store.notices import NoticeKind, NoticeView
from runtime.admin.shapes.fields import Out, Paging
from runtime.notifying import notice_json


class NoticeFilters(Paging):
    """Which notices are wanted."""

    tenant: TenantId | None = None


class NoticeOut(Out):
    """What an administrator should hear of.

    A budget that reached a threshold, or would have denied a call did it not only observe; denials
    of an agent, added up; a question to a person, and what became of it.
    """

    seq: int
    at_ms: int
    tenant: TenantId
    kind: NoticeKind
    budget_id: str | None = Field(description="null: it is of no budget")
    subject: str
    unit: Unit | None = Field(description="null: it is of no budget")
    call_id: str
    detail: dict[str, JsonValue]
    delivered_at_ms: int | None = Field(description="when a notifier first took it; null: none did")


def notice_out(view: NoticeView) -> NoticeOut:
    """Return a notice as it is shown."""
    return NoticeOut.model_validate({**notice_json(view), "delivered_at_ms": view.delivered_at_ms})
