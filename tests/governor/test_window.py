import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidBudgetError
from governor.window import Fixed, Lifetime, Sliding, buckets_near


@given(length_ms=st.integers(1, 10**12), now_ms=st.integers(0, 10**15))
def test_a_moment_lies_in_exactly_the_window_that_it_names(length_ms: int, now_ms: int) -> None:
    window = Fixed(length_ms)

    start_ms, resets_at_ms = window.start_ms(now_ms), window.resets_at_ms(now_ms)

    assert resets_at_ms is not None
    assert start_ms <= now_ms < resets_at_ms
    assert start_ms % length_ms == 0
    assert window.start_ms(resets_at_ms) == resets_at_ms
    assert window.start_ms(resets_at_ms - 1) == start_ms


@given(now_ms=st.integers(0, 10**15))
def test_a_lifetime_begins_once_and_never_resets(now_ms: int) -> None:
    assert Lifetime().start_ms(now_ms) == 0
    assert Lifetime().resets_at_ms(now_ms) is None


@pytest.mark.parametrize("length_ms", [0, -1])
def test_a_window_of_no_length_is_refused(length_ms: int) -> None:
    with pytest.raises(InvalidBudgetError, match=r"window\.length_ms"):
        Fixed(length_ms)


@given(length_s=st.integers(1, 31_622_400))
def test_every_length_in_seconds_divides_into_parts_near_sixty(length_s: int) -> None:
    buckets = buckets_near(length_s * 1_000)

    assert Sliding(length_ms=length_s * 1_000, buckets=buckets).bucket_ms * buckets
    # A thousand divides into 50, so that is as far away as it can be.
    assert 50 <= buckets <= 70


def test_parts_that_were_written_and_do_not_divide_are_refused_with_a_number_that_does() -> None:
    assert [buckets_near(length_ms) for length_ms in (60_000, 100_000, 7_000)] == [60, 50, 56]
    with pytest.raises(InvalidBudgetError, match=r"window\.buckets: .* write 50, or leave it out"):
        Sliding(length_ms=100_000, buckets=60)
