"""When a call is sent again, and after which pause."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from governor.retrying import RetryTerms, Sent, pause_before_retry

TERMS = RetryTerms(retries=3, pause_ms=100, pause_ms_max=250)


def longest(bound: int) -> int:
    return bound - 1


def pause(
    *,
    attempts: int = 1,
    sent: Sent = Sent.NOTHING,
    is_repeatable: bool = False,
    left_ms: int = 10_000,
    below: Callable[[int], int] = longest,
) -> int | None:
    return pause_before_retry(
        TERMS,
        attempts=attempts,
        sent=sent,
        is_repeatable=is_repeatable,
        left_ms=left_ms,
        below=below,
    )


def test_only_what_is_safe_is_sent_again() -> None:
    sent_again = {
        (sent, is_repeatable)
        for sent in Sent
        for is_repeatable in (False, True)
        if pause(sent=sent, is_repeatable=is_repeatable) is not None
    }

    assert sent_again == {(Sent.NOTHING, False), (Sent.NOTHING, True), (Sent.UNKNOWN, True)}


def test_the_longest_pause_doubles_up_to_a_bound_and_then_there_is_none() -> None:
    assert [pause(attempts=number) for number in range(1, 5)] == [100, 200, 250, None]


def test_a_pause_is_drawn_from_none_to_all_of_its_length() -> None:
    assert pause(below=lambda _: 0) == 0


def test_nothing_is_sent_again_for_which_there_is_no_time() -> None:
    assert pause(left_ms=100) is None
    assert pause(left_ms=101) == 100
    assert pause(left_ms=0, below=lambda _: 0) is None


def test_no_retries_is_never() -> None:
    never = RetryTerms(retries=0)

    assert (
        pause_before_retry(
            never,
            attempts=1,
            sent=Sent.NOTHING,
            is_repeatable=True,
            left_ms=10_000,
            below=longest,
        )
        is None
    )


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.randoms())
def test_pauses_stay_within_their_bound_and_their_time(
    attempts: int, left_ms: int, chance: object
) -> None:
    found = pause(attempts=attempts, left_ms=left_ms, below=chance.randrange)

    if found is None:
        assert attempts > TERMS.retries or left_ms <= TERMS.pause_ms_max
    else:
        assert 0 <= found <= TERMS.pause_ms_max
        assert found < left_ms
