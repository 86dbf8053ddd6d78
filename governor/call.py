"""The vocabulary of one call, shared by every package."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from governor.amounts import Amounts
from governor.denial import DenialReason
from governor.fairness.claim import NO_URGENCY, Urgency
from governor.ids import ArchiveId, CallId, TaskClass, ToolName, TurnId
from governor.intents import NO_INTENT, Intent
from governor.scope import ScopeChain
from governor.target import CallKind
from governor.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """A client's key for a call, with the hash of what it asked for."""

    key: str
    payload_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One tool invocation as it enters the governed path.

    `is_read_only` is its sender's wish that nothing be changed by it, `intent` its word about
    what it needs. With `takes_bytes` its sender is handed the bytes that it reads, not a text of
    them.
    """

    call_id: CallId
    tool: ToolName
    arguments: Mapping[str, object]
    chain: ScopeChain
    turn: TurnId | None
    idempotency: Idempotency | None = None
    task_class: TaskClass | None = None
    urgency: Urgency = NO_URGENCY
    is_read_only: bool = False
    intent: Intent = NO_INTENT
    takes_bytes: bool = False


class CallStatus(StrEnum):
    """How a call ended."""

    OK = "ok"
    TOOL_ERROR = "tool_error"
    DENIED = "denied"
    RELEASED = "released"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    UPSTREAM_FAILED = "upstream_failed"
    LIMIT_HIT = "limit_hit"
    EXPIRED = "expired"


class Enforcement(StrEnum):
    """How the limits of a local command were in force."""

    ENFORCED = "enforced"
    OBSERVED = "observed"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolated:
    """What stood around a local command while it ran; `energy_by` is how its energy was found."""

    enforcement: Enforcement
    contained: bool
    by: str
    why: str = ""
    energy_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """What is kept of a call once it ended; times in epoch milliseconds.

    `usage_source` says who counted the tokens of a model call. The hashes are equal for equal
    arguments and equal results of one session, and mean nothing outside of it.
    """

    call_id: CallId
    kind: CallKind
    name: str
    chain: ScopeChain
    turn: TurnId | None
    status: CallStatus
    started_at_ms: int
    ended_at_ms: int
    arguments: str
    backend: str
    rule: str
    policy_version: str
    estimate: Amounts
    usage: Usage | None = None
    denial: DenialReason | None = None
    detail: str = ""
    isolated: Isolated | None = None
    result_bytes: int | None = None
    archive_id: ArchiveId | None = None
    arguments_hash: str | None = None
    result_hash: str | None = None
    price_version: str | None = None
    usage_source: str | None = None
