"""The audit log as JSON."""

from pydantic import JsonValue

from memory_store.audit import AuditEntry
from runtime.admin.shapes.fields import Out


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
