"""What a provider's error means: for the bill, for the key, for who is asked next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.breaker import Sign
from governor.providing.failure import (
    CONSEQUENCES,
    Again,
    Cause,
    Complaint,
    KeyFate,
    Mends,
    failure_in_answer,
    failure_of,
    failure_of_status,
)
from governor.retrying import Sent

LONG = "This model's maximum context length is 8192 tokens, you asked for 9000."


def test_every_cause_has_its_consequences() -> None:
    assert set(CONSEQUENCES) == set(Cause)


@pytest.mark.parametrize(
    ("status", "complaint", "cause"),
    [
        (400, Complaint(), Cause.MISTAKEN),
        (400, Complaint(code="context_length_exceeded"), Cause.TOO_LONG),
        (400, Complaint(kind="invalid_request_error", message=LONG), Cause.TOO_LONG),
        (400, Complaint(kind="exceed_context_size_error"), Cause.TOO_LONG),
        (400, Complaint(message="prompt is too long: 9 tokens > 8 maximum"), Cause.TOO_LONG),
        (400, Complaint(message="Your credit balance is too low to use this"), Cause.UNPAID),
        (401, Complaint(code="invalid_api_key", kind="invalid_request_error"), Cause.KEY_REFUSED),
        (402, Complaint(), Cause.UNPAID),
        (403, Complaint(kind="permission_error"), Cause.KEY_REFUSED),
        (403, Complaint(code="invalid_api_key"), Cause.KEY_REFUSED),
        (403, Complaint(code="insufficient_quota"), Cause.UNPAID),
        (403, Complaint(kind="moderation"), Cause.MISTAKEN),
        (403, Complaint(message="Your input was flagged. API key ID: y"), Cause.MISTAKEN),
        (403, Complaint(), Cause.MISTAKEN),
        (403, Complaint(code="model_not_found"), Cause.NOT_SERVED),
        (404, Complaint(), Cause.NOT_SERVED),
        (408, Complaint(), Cause.TIMED_OUT),
        (409, Complaint(), Cause.MISTAKEN),
        (413, Complaint(kind="request_too_large"), Cause.MISTAKEN),
        (422, Complaint(), Cause.MISTAKEN),
        (429, Complaint(), Cause.RATE_LIMITED),
        (429, Complaint(code="insufficient_quota"), Cause.UNPAID),
        (499, Complaint(), Cause.TIMED_OUT),
        (500, Complaint(), Cause.FAILED),
        (502, Complaint(), Cause.FAILED),
        (503, Complaint(), Cause.FAILED),
        (503, Complaint(kind="overloaded_error"), Cause.OVERLOADED),
        (504, Complaint(), Cause.FAILED),
        (529, Complaint(), Cause.OVERLOADED),
        (302, Complaint(), Cause.FAILED),
    ],
)
def test_a_status_and_what_is_said_with_it_tell_the_cause(
    status: int, complaint: Complaint, cause: Cause
) -> None:
    assert failure_of_status(status, complaint).cause is cause


def test_a_503_that_names_a_time_was_not_handled() -> None:
    named, bare = failure_of_status(503, retry_after_ms=1_000), failure_of_status(503)

    assert named.cause is Cause.OVERLOADED
    assert named.proves_nothing_generated
    assert not bare.proves_nothing_generated


@given(st.integers(min_value=100, max_value=999))
def test_only_refusals_prove_that_nothing_was_generated(status: int) -> None:
    failure = failure_of_status(status)

    proven = (400 <= status < 500 and status not in (408, 499)) or status == 529
    assert failure.proves_nothing_generated == proven


@given(st.integers(min_value=100, max_value=599) | st.none(), st.text(), st.text(), st.text())
def test_an_error_in_place_of_an_answer_never_proves_that_nothing_was_generated(
    status: int | None, code: str, kind: str, message: str
) -> None:
    complaint = Complaint(code=code, kind=kind, message=message)

    assert failure_in_answer(complaint, status=status).sent is Sent.UNKNOWN


def test_an_error_in_place_of_an_answer_says_what_its_words_say() -> None:
    rate = failure_in_answer(Complaint(), status=429, retry_after_ms=5)
    loaded = failure_in_answer(Complaint(kind="overloaded_error"))
    plain = failure_in_answer(Complaint(message="oops"))

    assert (rate.cause, rate.retry_after_ms) == (Cause.RATE_LIMITED, 5)
    assert (loaded.cause, plain.cause) == (Cause.OVERLOADED, Cause.FAILED)


@given(st.text())
def test_no_prompt_that_a_provider_quotes_costs_a_key(prompt: str) -> None:
    quoted = f"Invalid value: {prompt} Your credit balance is too low, {LONG}"

    failure = failure_of_status(400, Complaint(kind="invalid_request_error", message=quoted))

    assert failure.consequence.key is KeyFate.KEPT


@pytest.mark.parametrize("cause", [Cause.MISTAKEN, Cause.TOO_LONG, Cause.NOT_SERVED])
def test_what_the_client_asked_for_is_no_fault_of_the_provider(cause: Cause) -> None:
    consequence = CONSEQUENCES[cause]

    assert consequence.sign is Sign.WELL
    assert consequence.again is Again.NEVER


def test_a_clients_own_mistake_is_mended_by_nobody() -> None:
    assert failure_of(Cause.MISTAKEN).consequence.mends is Mends.NOBODY
    assert failure_of(Cause.TOO_LONG).consequence.mends is Mends.A_LARGER_WINDOW
