"""Approvals: a person is asked about one call, and what becomes of the question."""

from dataclasses import dataclass, replace
from enum import StrEnum

from governor.amounts import Amounts
from governor.denial import DenialReason, Denied, Remedy, RemedyAction
from governor.errors import InvalidTransitionError
from governor.ids import (
    ApprovalId,
    CallId,
    PrincipalId,
    ReservationId,
    SessionId,
    ToolName,
    TurnId,
)
from governor.scope import ScopeChain

# When a caller that was told to come back should do so.
RETRY_MS = 15_000


class ApprovalState(StrEnum):
    """Where a question stands. Only PENDING and APPROVED ones keep their hold."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    USED = "used"


class ApprovalEvent(StrEnum):
    """What can happen to a question."""

    APPROVE = "approve"
    REJECT = "reject"
    EXPIRE = "expire"
    WITHDRAW = "withdraw"
    USE = "use"


# A yes is used once, by one call; nothing leads back to APPROVED. A client that goes away
# takes back its question only while nobody has answered it.
TRANSITIONS: dict[tuple[ApprovalState, ApprovalEvent], ApprovalState] = {
    (ApprovalState.PENDING, ApprovalEvent.APPROVE): ApprovalState.APPROVED,
    (ApprovalState.PENDING, ApprovalEvent.REJECT): ApprovalState.REJECTED,
    (ApprovalState.PENDING, ApprovalEvent.EXPIRE): ApprovalState.EXPIRED,
    (ApprovalState.PENDING, ApprovalEvent.WITHDRAW): ApprovalState.WITHDRAWN,
    (ApprovalState.APPROVED, ApprovalEvent.EXPIRE): ApprovalState.EXPIRED,
    (ApprovalState.APPROVED, ApprovalEvent.USE): ApprovalState.USED,
}

LIVE_STATES = frozenset({ApprovalState.PENDING, ApprovalState.APPROVED})
# The states that a question ends in without its call.
GIVEN_UP = frozenset({ApprovalState.REJECTED, ApprovalState.EXPIRED, ApprovalState.WITHDRAWN})

_BY_A_PERSON = frozenset({ApprovalEvent.APPROVE, ApprovalEvent.REJECT})
# Whatever needs a yes or a no must come in time.
_IN_TIME = _BY_A_PERSON | {ApprovalEvent.USE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What makes two calls the same question: who asks where for what, to the letter."""

    agent: PrincipalId
    session: SessionId
    tool: ToolName
    arguments_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One question to a person, and the hold that is kept until it is answered.

    `arguments` is what records keep of them; only the hash says what may run. `decided_by`
    and `reason` are None and empty until a person has spoken.
    """

    approval_id: ApprovalId
    reservation_id: ReservationId
    call_id: CallId
    chain: ScopeChain
    turn: TurnId | None
    tool: ToolName
    arguments: str
    arguments_hash: str
    backend: str
    rule: str
    policy_version: str
    estimate: Amounts
    created_at_ms: int
    expires_at_ms: int
    state: ApprovalState = ApprovalState.PENDING
    decided_at_ms: int | None = None
    decided_by: str | None = None
    reason: str = ""

    @property
    def asked(self) -> Asked:
        """Return the question itself."""
        return Asked(
            agent=self.chain.agent,
            session=self.chain.session,
            tool=self.tool,
            arguments_hash=self.arguments_hash,
        )

    @property
    def is_live(self) -> bool:
        """Tell whether its hold is kept."""
        return self.state in LIVE_STATES

    def is_due(self, now_ms: int) -> bool:
        """Tell whether its time has passed."""
        return now_ms >= self.expires_at_ms


def moved(
    approval: Approval,
    event: ApprovalEvent,
    *,
    now_ms: int,
    by: str | None = None,
    reason: str = "",
) -> Approval:
    """Return the approval after `event`; `by` and `reason` are those of a person.

    Raises:
        InvalidTransitionError: it was answered, used or given up before, or its time is over.
    """
    state = TRANSITIONS.get((approval.state, event))
    if state is None:
        message = f"an approval that is {approval.state} cannot {event}"
        raise InvalidTransitionError(message)
    if event in _IN_TIME and approval.is_due(now_ms):
        message = "the time of this approval is over"
        raise InvalidTransitionError(message)
    if event not in _BY_A_PERSON:
        return replace(approval, state=state)
    return replace(approval, state=state, decided_at_ms=now_ms, decided_by=by, reason=reason)


def denial_of(approval: Approval, *, now_ms: int) -> Denied:
    """Return why a call does not run whose question stands like this; APPROVED ones do run."""
    tool = approval.tool
    left_s = max(0, approval.expires_at_ms - now_ms) // 1000
    match approval.state:
        case ApprovalState.PENDING | ApprovalState.APPROVED:
            return _denied(
                approval,
                DenialReason.APPROVAL_PENDING,
                RemedyAction.RETRY_LATER,
                f"A person was asked whether {tool} may run and has not answered yet. What it "
                f"needs stays reserved. Call it again in a while with exactly the same arguments, "
                f"in the same session; the question stands for another {left_s} s.",
                retry_after_ms=RETRY_MS,
            )
        case ApprovalState.REJECTED:
            why = approval.reason or "they gave no reason"
            return _denied(
                approval,
                DenialReason.APPROVAL_REJECTED,
                RemedyAction.FINISH_WITH_WHAT_YOU_HAVE,
                f"A person refused this call of {tool}: {why}. The same call gets the same "
                f"answer for another {left_s} s; do without it.",
            )
        case ApprovalState.EXPIRED | ApprovalState.WITHDRAWN:
            return _denied(
                approval,
                DenialReason.APPROVAL_EXPIRED,
                RemedyAction.ASK_ADMINISTRATOR,
                f"Nobody answered in time whether {tool} may run, so nothing is reserved for it "
                "any more. Ask an administrator, or call it again to ask anew.",
            )
        case ApprovalState.USED:
            return _denied(
                approval,
                DenialReason.APPROVAL_USED,
                RemedyAction.RETRY_LATER,
                f"The approval was for one call of {tool}, and an identical one has used it "
                f"({approval.call_id}). Call it again only to ask for another.",
            )


def _denied(
    approval: Approval,
    reason: DenialReason,
    action: RemedyAction,
    text: str,
    *,
    retry_after_ms: int | None = None,
) -> Denied:
    return Denied(
        reason=reason,
        remedy=Remedy(action=action, text=text),
        retry_after_ms=retry_after_ms,
        approval_id=approval.approval_id,
    )
