"""What is done after a failed attempt, as a table and by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.providing.failure import Cause, Failure, failure_of, failure_of_status
from governor.providing.recourse import (
    AnotherTier,
    Attempts,
    GiveUp,
    NewHold,
    Recourse,
    SameHold,
    recourse_after,
)
from governor.retrying import RetryTerms, Sent

TERMS = RetryTerms(retries=2, pause_ms=100, pause_ms_max=2_000)
FIRST = Attempts(made=1, left_ms=60_000)


def after(
    failure: Failure, attempts: Attempts = FIRST, *, budget: int = 100, draw: int = 0
) -> Recourse:
    left = [budget]

    def may_retry() -> bool:
        left[0] -= 1
        return left[0] >= 0

    return recourse_after(
        failure,
        attempts,
        terms=TERMS,
        below=lambda bound: min(draw, bound - 1),
        may_retry=may_retry,
    )


@pytest.mark.parametrize(
    ("cause", "recourse"),
    [
        (Cause.UNREACHED, SameHold(pause_ms=0)),
        (Cause.OVERLOADED, SameHold(pause_ms=0)),
        (Cause.RATE_LIMITED, SameHold(pause_ms=0)),
        (Cause.KEYS_RESTING, SameHold(pause_ms=0)),
        (Cause.KEY_REFUSED, AnotherTier()),
        (Cause.UNPAID, AnotherTier()),
        (Cause.NOT_SERVED, AnotherTier()),
        (Cause.TIMED_OUT, AnotherTier()),
        (Cause.FAILED, AnotherTier()),
        (Cause.TOO_LONG, AnotherTier(is_for_size=True)),
        (Cause.MISTAKEN, GiveUp()),
    ],
)
def test_each_cause_has_its_recourse(cause: Cause, recourse: Recourse) -> None:
    assert after(failure_of(cause)) == recourse


def test_what_may_have_been_billed_is_repeated_in_a_hold_of_its_own_and_only_if_told_to() -> None:
    told = Attempts(made=1, left_ms=60_000, is_repeatable=True)

    assert after(failure_of(Cause.FAILED)) == AnotherTier()
    assert after(failure_of(Cause.FAILED), told) == NewHold(pause_ms=0)


def test_nothing_is_done_once_the_client_has_a_part_of_an_answer() -> None:
    begun = Attempts(made=1, left_ms=60_000, has_begun=True, is_repeatable=True)

    assert all(after(failure_of(cause), begun) == GiveUp() for cause in Cause)


def test_another_key_is_asked_at_once_and_costs_the_budget_nothing() -> None:
    attempts = Attempts(made=1, left_ms=60_000, has_another_key=True)

    for status in (401, 402, 429):
        failure = failure_of_status(status, retry_after_ms=30_000)
        assert after(failure, attempts, budget=0, draw=50) == SameHold(pause_ms=0)


def test_a_short_time_that_the_provider_names_is_waited_out() -> None:
    failure = failure_of(Cause.RATE_LIMITED, retry_after_ms=1_500)

    assert after(failure, draw=40) == SameHold(pause_ms=1_540)


def test_a_long_time_that_the_provider_names_is_left_to_another_tier() -> None:
    assert after(failure_of(Cause.RATE_LIMITED, retry_after_ms=2_001)) == AnotherTier()


def test_a_time_that_the_call_does_not_have_is_left_to_another_tier() -> None:
    short = Attempts(made=1, left_ms=1_000)

    assert after(failure_of(Cause.RATE_LIMITED, retry_after_ms=1_000), short) == AnotherTier()


def test_without_a_retry_left_for_the_provider_another_tier_is_asked() -> None:
    assert after(failure_of(Cause.OVERLOADED), budget=0) == AnotherTier()


@given(
    cause=st.sampled_from(list(Cause)),
    made=st.integers(min_value=1, max_value=10),
    left_ms=st.integers(min_value=0, max_value=100_000),
    has_another_key=st.booleans(),
    is_repeatable=st.booleans(),
    retry_after_ms=st.none() | st.integers(min_value=0, max_value=10**9),
    draw=st.integers(min_value=0, max_value=10**6),
)
def test_no_retry_is_one_too_many_or_outlasts_the_call_or_shares_a_hold_that_is_used(
    *,
    cause: Cause,
    made: int,
    left_ms: int,
    has_another_key: bool,
    is_repeatable: bool,
    retry_after_ms: int | None,
    draw: int,
) -> None:
    failure = failure_of(cause, retry_after_ms=retry_after_ms)
    attempts = Attempts(
        made=made, left_ms=left_ms, has_another_key=has_another_key, is_repeatable=is_repeatable
    )

    recourse = after(failure, attempts, draw=draw)

    if isinstance(recourse, SameHold | NewHold):
        assert made <= TERMS.retries
        assert recourse.pause_ms < left_ms
        assert recourse.pause_ms <= 2 * TERMS.pause_ms_max
    if isinstance(recourse, SameHold):
        assert failure.sent is Sent.NOTHING
    if isinstance(recourse, NewHold):
        assert is_repeatable
