import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidBudgetError
from governor.window import Fixed, Lifetime


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
