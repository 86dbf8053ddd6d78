"""Approvals as rows: the table, and the values that stand in it."""

from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Table, Text, text

from governor.approval import Approval, ApprovalState
from governor.ids import (
    ApprovalId,
    CallId,
    PrincipalId,
    ReservationId,
    SessionId,
    TenantId,
    ToolName,
    TurnId,
)
from governor.scope import ScopeChain
from memory_store.rows import amounts_json, amounts_of
from memory_store.tables import metadata

IS_LIVE = text("state IN ('pending', 'approved')")

approvals = Table(
    "approvals",
    metadata,
    Column("approval_id", Text, primary_key=True),
    Column("reservation_id", Text, nullable=False, unique=True),
    Column("call_id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("turn", Text),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("arguments_hash", Text, nullable=False),
    Column("backend", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("policy_version", Text, nullable=False),
    Column("estimate", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("decided_at_ms", BigInteger),
    Column("decided_by", Text),
    Column("reason", Text, nullable=False),
    CheckConstraint(
        "state IN ('pending', 'approved', 'rejected', 'expired', 'withdrawn', 'used')",
        name="state",
    ),
    CheckConstraint("(decided_at_ms IS NULL) = (decided_by IS NULL)", name="decided_by_someone"),
    Index("ix_approvals_created_at_ms_approval_id", "created_at_ms", "approval_id"),
    Index("ix_approvals_session_created_at_ms", "session", "created_at_ms"),
    Index("ix_approvals_live", "expires_at_ms", sqlite_where=IS_LIVE, postgresql_where=IS_LIVE),
    # One question at a time about the same call of the same agent in the same session.
    Index(
        "uq_approvals_live_question",
        "agent",
        "session",
        "tool",
        "arguments_hash",
        unique=True,
        sqlite_where=IS_LIVE,
        postgresql_where=IS_LIVE,
    ),
)


def columns_of(approval: Approval) -> dict[str, object]:
    """Return the columns of `approval`."""
    return {
        "approval_id": approval.approval_id,
        "reservation_id": approval.reservation_id,
        "call_id": approval.call_id,
        "tenant": approval.chain.tenant,
        "agent": approval.chain.agent,
        "session": approval.chain.session,
        "turn": approval.turn,
        "tool": approval.tool,
        "arguments": approval.arguments,
        "arguments_hash": approval.arguments_hash,
        "backend": approval.backend,
        "rule": approval.rule,
        "policy_version": approval.policy_version,
        "estimate": amounts_json(approval.estimate),
        "created_at_ms": approval.created_at_ms,
        "expires_at_ms": approval.expires_at_ms,
        "state": approval.state.value,
        "decided_at_ms": approval.decided_at_ms,
        "decided_by": approval.decided_by,
        "reason": approval.reason,
    }


def approval_of(row: Any) -> Approval:
    """Return the approval in `row` of the table."""
    return Approval(
        approval_id=ApprovalId(row.approval_id),
        reservation_id=ReservationId(row.reservation_id),
        call_id=CallId(row.call_id),
        chain=ScopeChain(
            tenant=TenantId(row.tenant),
            agent=PrincipalId(row.agent),
            session=SessionId(row.session),
        ),
        turn=None if row.turn is None else TurnId(row.turn),
        tool=ToolName(row.tool),
        arguments=row.arguments,
        arguments_hash=row.arguments_hash,
        backend=row.backend,
        rule=row.rule,
        policy_version=row.policy_version,
        estimate=amounts_of(row.estimate),
        created_at_ms=row.created_at_ms,
        expires_at_ms=row.expires_at_ms,
        state=ApprovalState(row.state),
        decided_at_ms=row.decided_at_ms,
        decided_by=row.decided_by,
        reason=row.reason,
    )
