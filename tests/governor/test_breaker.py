"""The circuit breaker, as a table of phases and as a count over a window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.breaker import NEXT, Breaker, BreakerTerms, Event, Permit, Phase, Refused, Sign

TERMS = BreakerTerms(
    failures_percent=50, calls_min=4, window_ms=10_000, open_ms=1_000, open_ms_max=4_000
)


def through(breaker: Breaker, now_ms: int) -> Permit:
    permit = breaker.let_through(now_ms)
    assert isinstance(permit, Permit)
    return permit


def pass_through(breaker: Breaker, sign: Sign, *, now_ms: int = 0, times: int = 1) -> None:
    for _ in range(times):
        breaker.ended(through(breaker, now_ms), sign, now_ms)


def opened(now_ms: int = 0) -> Breaker:
    breaker = Breaker(TERMS)
    pass_through(breaker, Sign.ILL, now_ms=now_ms, times=4)
    assert breaker.phase is Phase.OPEN
    return breaker


def test_only_these_changes_of_phase_exist() -> None:
    assert set(NEXT) == {
        (Phase.CLOSED, Event.TRIPPED),
        (Phase.OPEN, Event.COOLED),
        (Phase.HALF_OPEN, Event.PROBE_WELL),
        (Phase.HALF_OPEN, Event.PROBE_ILL),
    }


@pytest.mark.parametrize(
    ("ill", "well", "phase"),
    [
        (3, 0, Phase.CLOSED),  # too few to tell
        (2, 3, Phase.CLOSED),  # too small a share
        (2, 2, Phase.OPEN),
        (4, 0, Phase.OPEN),
    ],
)
def test_it_opens_at_a_share_of_enough_calls(ill: int, well: int, phase: Phase) -> None:
    breaker = Breaker(TERMS)

    pass_through(breaker, Sign.WELL, times=well)
    pass_through(breaker, Sign.ILL, times=ill)

    assert breaker.phase is phase


def test_what_left_the_window_counts_no_more() -> None:
    breaker = Breaker(TERMS)
    pass_through(breaker, Sign.ILL, now_ms=0, times=3)

    pass_through(breaker, Sign.ILL, now_ms=TERMS.window_ms + 1_000)

    assert breaker.phase is Phase.CLOSED
    assert breaker.counted(TERMS.window_ms + 1_000) == (1, 1)


def test_calls_that_say_nothing_are_not_counted() -> None:
    breaker = Breaker(TERMS)

    pass_through(breaker, Sign.NOTHING, times=20)

    assert breaker.counted(0) == (0, 0)


def test_open_it_lets_nothing_through_and_says_for_how_long() -> None:
    breaker = opened(now_ms=100)

    assert breaker.let_through(100) == Refused(retry_after_ms=1_000)
    assert breaker.let_through(1_099) == Refused(retry_after_ms=1)


def test_cooled_down_it_lets_one_probe_through() -> None:
    breaker = opened()

    probe = through(breaker, 1_000)

    assert probe.is_probe
    assert breaker.phase is Phase.HALF_OPEN
    assert isinstance(breaker.let_through(1_000), Refused)


def test_a_probe_that_ends_well_closes_it() -> None:
    breaker = opened()

    breaker.ended(through(breaker, 1_000), Sign.WELL, 1_100)

    assert breaker.phase is Phase.CLOSED
    assert breaker.counted(1_100) == (0, 0)


def test_each_probe_that_fails_doubles_the_pause_up_to_a_bound() -> None:
    breaker, now_ms, pauses = opened(), 0, []

    for _ in range(5):
        refused = breaker.let_through(now_ms)
        assert isinstance(refused, Refused)
        pauses.append(refused.retry_after_ms)
        now_ms += refused.retry_after_ms
        breaker.ended(through(breaker, now_ms), Sign.ILL, now_ms)

    assert pauses == [1_000, 2_000, 4_000, 4_000, 4_000]


def test_closed_again_it_pauses_as_at_first() -> None:
    breaker = opened()
    breaker.ended(through(breaker, 1_000), Sign.ILL, 1_000)
    breaker.ended(through(breaker, 3_000), Sign.WELL, 3_000)

    pass_through(breaker, Sign.ILL, now_ms=3_000, times=4)

    assert breaker.let_through(3_000) == Refused(retry_after_ms=1_000)


def test_a_probe_that_says_nothing_leaves_its_place_to_the_next() -> None:
    breaker = opened()

    breaker.ended(through(breaker, 1_000), Sign.NOTHING, 1_000)

    assert breaker.phase is Phase.HALF_OPEN
    assert through(breaker, 1_000).is_probe


def test_what_was_sent_before_it_opened_has_no_say_afterwards() -> None:
    breaker = Breaker(TERMS)
    early = through(breaker, 0)
    pass_through(breaker, Sign.ILL, times=4)
    through(breaker, 1_000)

    breaker.ended(early, Sign.WELL, 1_000)

    assert breaker.phase is Phase.HALF_OPEN
    assert isinstance(breaker.let_through(1_000), Refused)


@given(
    st.lists(
        st.tuples(st.integers(0, 3_000), st.sampled_from(Sign), st.integers(0, 3)), max_size=200
    )
)
def test_whatever_comes_there_is_never_a_second_probe_nor_an_endless_pause(
    steps: list[tuple[int, Sign, int]],
) -> None:
    breaker, now_ms = Breaker(TERMS), 0
    out: list[Permit] = []

    for after_ms, sign, which in steps:
        now_ms += after_ms
        answer = breaker.let_through(now_ms)
        if isinstance(answer, Refused):
            assert 0 < answer.retry_after_ms <= TERMS.open_ms_max
        else:
            out.append(answer)
        live = [one for one in out if one.is_probe and one.epoch == breaker._epoch]
        assert len(live) <= 1
        assert len(breaker._steps) <= 12
        if out and which:
            breaker.ended(out.pop(which % len(out)), sign, now_ms)
