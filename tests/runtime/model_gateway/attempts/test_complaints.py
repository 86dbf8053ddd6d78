"""Errors as model servers write them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.providing.failure import Complaint
from runtime.model_gateway.attempts.complaints import Said, said_in


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"error": {"message": "slow", "type": "requests", "code": "rate_limit_exceeded"}},
            Said(complaint=Complaint(code="rate_limit_exceeded", kind="requests", message="slow")),
        ),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            Said(complaint=Complaint(kind="overloaded_error", message="Overloaded")),
        ),
        (
            {"error": {"code": 429, "message": "Provider returned error"}},
            Said(complaint=Complaint(message="Provider returned error"), status=429),
        ),
        (
            {"error": {"code": "503", "message": "x"}},
            Said(complaint=Complaint(code="503", message="x"), status=503),
        ),
        ({"error": "model not found"}, Said(complaint=Complaint(message="model not found"))),
        (
            {"object": "error", "message": "no", "type": "NotFoundError", "code": 404},
            Said(complaint=Complaint(kind="NotFoundError", message="no"), status=404),
        ),
        ({"error": {"code": True, "type": 7, "message": None}}, Said()),
        ({"error": {"code": 200}}, Said()),
        ({}, Said()),
    ],
)
def test_an_error_is_read_in_whatever_shape_it_comes(body: object, said: Said) -> None:
    assert said_in(json.dumps(body).encode()) == said


@given(st.binary(max_size=200))
def test_what_cannot_be_read_says_nothing(content: bytes) -> None:
    said = said_in(b"\x00" + content)

    assert said == Said()
