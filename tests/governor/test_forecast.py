from hypothesis import given
from hypothesis import strategies as st

from governor.forecast import HOUR_MS, SPAN_MS_MIN, empties_at_ms, pace_per_hour

NOW_MS = 10 * HOUR_MS
amounts = st.integers(0, 2**50)


def test_a_pace_is_that_of_the_time_in_which_it_was_charged() -> None:
    half = pace_per_hour(
        300, first_at_ms=NOW_MS - HOUR_MS // 2, since_ms=NOW_MS - HOUR_MS, now_ms=NOW_MS
    )
    at_once = pace_per_hour(300, first_at_ms=NOW_MS, since_ms=NOW_MS - HOUR_MS, now_ms=NOW_MS)

    assert half == 600
    assert at_once == 300 * HOUR_MS // SPAN_MS_MIN, "one call a moment ago is no pace yet"


def test_where_less_was_looked_at_the_pace_is_that_of_what_was() -> None:
    pace = pace_per_hour(10, first_at_ms=0, since_ms=NOW_MS - 60_000, now_ms=NOW_MS)
    at_once = pace_per_hour(10, first_at_ms=NOW_MS, since_ms=NOW_MS, now_ms=NOW_MS)

    assert pace == 600
    assert at_once == 10 * HOUR_MS


def test_nothing_runs_out_before_a_window_that_begins_anew() -> None:
    terms = {"remaining": 100, "per_hour": 50, "now_ms": NOW_MS}

    assert empties_at_ms(**terms, resets_at_ms=None) == NOW_MS + 2 * HOUR_MS
    assert empties_at_ms(**terms, resets_at_ms=NOW_MS + 3 * HOUR_MS) == NOW_MS + 2 * HOUR_MS
    assert empties_at_ms(**terms, resets_at_ms=NOW_MS + 2 * HOUR_MS) is None


def test_a_sliding_window_runs_out_only_where_more_is_used_than_comes_back() -> None:
    terms = {"remaining": 100, "now_ms": NOW_MS, "resets_at_ms": None, "limit": 200}

    assert empties_at_ms(**terms, per_hour=200, returns_within_ms=HOUR_MS) is None
    assert empties_at_ms(**terms, per_hour=400, returns_within_ms=HOUR_MS) == NOW_MS + HOUR_MS // 4


@given(remaining=amounts, per_hour=amounts, resets=st.none() | st.integers(1, 10 * HOUR_MS))
def test_what_runs_out_does_so_from_now_on_and_before_the_reset(
    remaining: int, per_hour: int, resets: int | None
) -> None:
    resets_at_ms = None if resets is None else NOW_MS + resets

    at_ms = empties_at_ms(
        remaining=remaining, per_hour=per_hour, now_ms=NOW_MS, resets_at_ms=resets_at_ms
    )

    assert at_ms is None or at_ms >= NOW_MS
    if remaining > 0 and at_ms is not None and resets_at_ms is not None:
        assert at_ms < resets_at_ms
