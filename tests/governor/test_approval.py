import itertools

import pytest

from governor.approval import (
    TRANSITIONS,
    Approval,
    ApprovalEvent,
    ApprovalState,
    denial_of,
    moved,
)
from governor.denial import DenialReason
from governor.errors import InvalidPolicyError, InvalidTransitionError
from governor.policy import ApprovalTerms
from tests.governor.makers import question

DUE_MS = 5_000


def an_approval(state: ApprovalState = ApprovalState.PENDING, *, reason: str = "") -> Approval:
    return question(expires_at_ms=DUE_MS, state=state, reason=reason)


@pytest.mark.requirement("governor.is-pure")
@pytest.mark.parametrize(("state", "event"), list(itertools.product(ApprovalState, ApprovalEvent)))
def test_an_approval_moves_as_the_table_says_and_not_otherwise(
    state: ApprovalState, event: ApprovalEvent
) -> None:
    to = TRANSITIONS.get((state, event))

    if to is None:
        with pytest.raises(InvalidTransitionError):
            moved(an_approval(state), event, now_ms=2_000)
    else:
        assert moved(an_approval(state), event, now_ms=2_000).state is to


def test_nothing_leads_back_to_a_yes_or_to_a_question() -> None:
    assert [event for (_, event), to in TRANSITIONS.items() if to is ApprovalState.APPROVED] == [
        ApprovalEvent.APPROVE
    ]
    assert ApprovalState.PENDING not in TRANSITIONS.values()


@pytest.mark.parametrize("event", [ApprovalEvent.APPROVE, ApprovalEvent.REJECT])
def test_an_answer_after_the_time_is_over_is_refused(event: ApprovalEvent) -> None:
    with pytest.raises(InvalidTransitionError, match="is over"):
        moved(an_approval(), event, now_ms=DUE_MS)


def test_a_yes_cannot_be_used_after_its_time() -> None:
    with pytest.raises(InvalidTransitionError, match="is over"):
        moved(an_approval(ApprovalState.APPROVED), ApprovalEvent.USE, now_ms=DUE_MS)


def test_only_a_person_leaves_a_name_and_a_reason() -> None:
    said = moved(an_approval(), ApprovalEvent.REJECT, now_ms=2_000, by="root", reason="no")
    expired = moved(an_approval(), ApprovalEvent.EXPIRE, now_ms=9_000, by="root", reason="no")

    assert (said.decided_by, said.decided_at_ms, said.reason) == ("root", 2_000, "no")
    assert (expired.decided_by, expired.decided_at_ms, expired.reason) == (None, None, "")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (ApprovalState.PENDING, DenialReason.APPROVAL_PENDING),
        (ApprovalState.REJECTED, DenialReason.APPROVAL_REJECTED),
        (ApprovalState.EXPIRED, DenialReason.APPROVAL_EXPIRED),
        (ApprovalState.WITHDRAWN, DenialReason.APPROVAL_EXPIRED),
        (ApprovalState.USED, DenialReason.APPROVAL_USED),
    ],
)
def test_each_state_that_runs_nothing_is_told_as_a_denial_that_names_the_approval(
    state: ApprovalState, reason: DenialReason
) -> None:
    denied = denial_of(an_approval(state), now_ms=2_000)

    assert (denied.reason, denied.approval_id) == (reason, "apr_1")
    assert (denied.retry_after_ms is not None) == (state is ApprovalState.PENDING)


@pytest.mark.requirement("denial.remedy-helps")
def test_the_reason_of_a_no_reaches_the_model() -> None:
    denied = denial_of(an_approval(ApprovalState.REJECTED, reason="use the archive"), now_ms=2_000)

    assert "use the archive" in denied.remedy.text


def test_a_wait_that_no_answer_can_end_is_refused() -> None:
    with pytest.raises(InvalidPolicyError, match="approval_wait_s"):
        ApprovalTerms(wait_ms=2_000, ttl_ms=1_000)
