"""Typed identifiers, so that one kind cannot be passed where another is meant."""

from typing import NewType

TenantId = NewType("TenantId", str)
PrincipalId = NewType("PrincipalId", str)
SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
TaskClass = NewType("TaskClass", str)
CallId = NewType("CallId", str)
ReservationId = NewType("ReservationId", str)
BudgetId = NewType("BudgetId", str)
ApprovalId = NewType("ApprovalId", str)
ArchiveId = NewType("ArchiveId", str)
ToolName = NewType("ToolName", str)
UpstreamName = NewType("UpstreamName", str)
TierName = NewType("TierName", str)
ExperienceId = NewType("ExperienceId", str)
NamespaceId = NewType("NamespaceId", str)
