"""The times that providers name, in all the ways in which they do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.model_gateway.attempts.named_rest import named_rest_ms

NOW_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7_000),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "1.5"}, 1_500),
        ({"retry-after": " 3 "}, 3_000),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:09 GMT"}, 9_000),
        ({"retry-after": "Wed, 31 Dec 2025 23:59:00 GMT"}, 0),
        ({"retry-after": "999999"}, HOUR_MS),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "\u0663"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "250", "retry-after": "7"}, 250),
        ({"retry-after-ms": "x", "retry-after": "7"}, 7_000),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360_000),
        ({"x-ratelimit-reset-tokens": "20ms"}, 20),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, HOUR_MS),
        ({"x-ratelimit-reset": "1767225605"}, 5_000),
        ({"x-ratelimit-reset": "1767225604500"}, 4_500),
        ({"anthropic-ratelimit-tokens-reset": "2026-01-01T00:00:30Z"}, 30_000),
        ({"anthropic-ratelimit-input-tokens-reset": "2026-01-01T01:00:10+01:00"}, 10_000),
        ({"anthropic-ratelimit-requests-reset": "never"}, None),
    ],
)
def test_a_time_is_read_in_whatever_way_it_is_named(
    headers: dict[str, str], wait_ms: int | None
) -> None:
    assert named_rest_ms(headers, now_ms=NOW_MS) == wait_ms


def test_the_limit_that_is_used_up_is_the_one_to_wait_for() -> None:
    headers = {
        "x-ratelimit-reset-requests": "50ms",
        "x-ratelimit-remaining-requests": "99",
        "x-ratelimit-reset-tokens": "12s",
        "x-ratelimit-remaining-tokens": "0",
    }

    assert named_rest_ms(headers, now_ms=NOW_MS) == 12_000


def test_where_no_limit_is_used_up_the_first_that_comes_back_is_waited_for() -> None:
    headers = {
        "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:02Z",
        "anthropic-ratelimit-requests-remaining": "5",
        "anthropic-ratelimit-tokens-reset": "2026-01-01T00:00:40Z",
        "anthropic-ratelimit-tokens-remaining": "800",
    }

    assert named_rest_ms(headers, now_ms=NOW_MS) == 2_000


NAMES = st.sampled_from(
    ["retry-after", "retry-after-ms", "x-ratelimit-reset", "anthropic-ratelimit-tokens-reset"]
)
VALUES = st.text(max_size=80) | st.from_regex(r"[0-9.]{0,70}(ms|s|m|h|d)?", fullmatch=True)


@given(st.dictionaries(NAMES, VALUES))
def test_whatever_a_provider_writes_is_a_time_within_the_hour_or_nothing(
    headers: dict[str, str],
) -> None:
    wait_ms = named_rest_ms(headers, now_ms=NOW_MS)

    assert wait_ms is None or 0 <= wait_ms <= HOUR_MS
