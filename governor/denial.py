"""Denials: decisions not to start, as values that a model can act on."""

from dataclasses import dataclass
from enum import StrEnum

from governor.amounts import Unit
from governor.ids import ApprovalId, BudgetId


class DenialReason(StrEnum):
    """Why a call was not started. The words are stable; programs match on them."""

    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_PENDING = "approval_pending"
    APPROVAL_REJECTED = "approval_rejected"
    APPROVAL_USED = "approval_used"
    ARGUMENTS_TOO_LARGE = "arguments_too_large"
    BUDGET_EXHAUSTED = "budget_exhausted"
    CLOCK_STEPPED_BACK = "clock_stepped_back"
    CONCURRENCY_EXHAUSTED = "concurrency_exhausted"
    FLOW_DENIED = "flow_denied"
    GATE_REQUIRED = "gate_required"
    GUARD_DENIED = "guard_denied"
    ISOLATION_UNAVAILABLE = "isolation_unavailable"
    LEDGER_UNAVAILABLE = "ledger_unavailable"
    LOOP_DETECTED = "loop_detected"
    OVERLOADED = "overloaded"
    POLICY_DENIED = "policy_denied"
    QUARANTINED = "quarantined"
    RATE_EXHAUSTED = "rate_exhausted"
    READ_ONLY = "read_only"
    SESSION_CLOSED = "session_closed"
    SESSION_FROZEN = "session_frozen"
    TURN_LIMIT = "turn_limit"
    TURN_UNKNOWN = "turn_unknown"
    UNIT_UNMEASURABLE = "unit_unmeasurable"
    UNPRICED = "unpriced"
    UPSTREAM_UNAVAILABLE = "upstream_unavailable"


class RemedyAction(StrEnum):
    """What the caller can do about a denial."""

    ASK_ADMINISTRATOR = "ask_administrator"
    ASK_FOR_EXTENSION = "ask_for_extension"
    CHANGE_APPROACH = "change_approach"
    FINISH_WITH_WHAT_YOU_HAVE = "finish_with_what_you_have"
    NEW_SESSION = "new_session"
    REQUEST_LESS = "request_less"
    RETRY_LATER = "retry_later"
    SOLVE_CHALLENGE = "solve_challenge"
    SEND_TURN = "send_turn"
    USE_CHEAPER_TOOL = "use_cheaper_tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """The way out of a denial: a stable action for programs, a sentence for the model.

    `cheaper` names what does a similar job for less, `contact` whom to ask; None where the
    policy names nobody.
    """

    action: RemedyAction
    text: str
    cheaper: str | None = None
    contact: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """One budget that does not cover a request.

    Of a rate, `limit` comes back in every `every_ms`, `burst` may come at once, and `used` is
    what of the burst has not come back yet; None elsewhere.
    """

    budget_id: BudgetId
    unit: Unit
    limit: int
    used: int
    reserved: int
    requested: int
    resets_at_ms: int | None
    every_ms: int | None = None
    burst: int | None = None

    @property
    def remaining(self) -> int:
        """Return what may be used now; negative after an overrun."""
        most = self.limit if self.burst is None else self.burst
        return most - self.used - self.reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A puzzle to solve before a call is served; `token` says which one was answered."""

    token: str
    puzzle: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLarge:
    """A bound on the size of one call's content, and the size that came; both in bytes."""

    limit: int
    got: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A decision not to start a call; nothing was reserved anywhere."""

    reason: DenialReason
    remedy: Remedy
    shortage: Shortage | None = None
    also: tuple[Shortage, ...] = ()
    retry_after_ms: int | None = None
    approval_id: ApprovalId | None = None
    challenge: Challenge | None = None
    size: TooLarge | None = None
