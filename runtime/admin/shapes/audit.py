"""The audit log as JSON."""

from typing import Annotated

from pydantic import Field, JsonValue

from memory_store.audit import AuditEntry
from runtime.admin.shapes.fields import Label, Out, Paging


class AuditFilters(Paging):
    """Which changes are wanted."""

    actor: Label | None = None
    action: Annotated[
        Label | None, Field(description="`budget.put`, or its first part: `budget`")
    ] = None
    target: Label | None = None


class AuditOut(Out):
    """One change; `before` is null for something new, `after` for something removed."""

    seq: int
    at_ms: int
    actor: str
    action: str
    target: str
    before: dict[str, JsonValue] | None
    after: dict[str, JsonValue] | None


def audit_out(entry: AuditEntry) -> AuditOut:
    """Return a change as it is shown."""
    return AuditOut.model_validate(entry, from_attributes=True)
