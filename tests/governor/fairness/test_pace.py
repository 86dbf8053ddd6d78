import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidPolicyError
from governor.fairness.claim import Priority
from governor.fairness.pace import Pace, Quota
from governor.fairness.shedding import Pressure, Shed, Thresholds


@pytest.mark.requirement("contention.commons-within-quota")
@given(
    per_minute=st.integers(1, 240_000),
    burst=st.integers(1, 50),
    gaps=st.lists(st.integers(0, 400), min_size=1, max_size=400),
)
def test_no_minute_sees_more_calls_than_the_quota_and_its_burst(
    per_minute: int, burst: int, gaps: list[int]
) -> None:
    quota = Quota(per_minute=per_minute, burst=min(burst, per_minute))
    pace, now_ms, started = Pace(quota), 0, []
    for gap in gaps:
        now_ms += gap
        while pace.is_due(now_ms) and len(started) < 5_000:
            pace.take(now_ms)
            started.append(now_ms)

    for first, at_ms in enumerate(started):
        # Counted from each start: k further ones need k intervals, less what a burst allows.
        for k in (1, 10, 100, 1000):
            if first + k < len(started):
                apart_us = (started[first + k] - at_ms + 1) * 1000
                assert apart_us > (k - quota.burst + 1) * quota.interval_us


@given(per_minute=st.integers(1, 100_000))
def test_it_says_in_which_millisecond_the_next_one_may_start(per_minute: int) -> None:
    pace, now_ms = Pace(Quota(per_minute=per_minute)), 0
    for _ in range(50):
        now_ms = max(now_ms, pace.due_ms())
        assert pace.is_due(now_ms)
        assert not pace.is_due(pace.due_ms() - 1)
        pace.take(now_ms)


def test_after_a_rest_only_the_burst_may_start_at_once() -> None:
    pace = Pace(Quota(per_minute=600, burst=3))
    at_once = 0
    while pace.is_due(60_000):
        pace.take(60_000)
        at_once += 1

    assert at_once == 3
    assert pace.due_ms() == 60_100


@pytest.mark.parametrize(("per_minute", "burst"), [(0, 1), (-1, 1), (5, 0), (5, 6), (10**9, 1)])
def test_a_quota_that_means_nothing_is_refused(per_minute: int, burst: int) -> None:
    with pytest.raises(InvalidPolicyError):
        Quota(per_minute=per_minute, burst=burst)


@pytest.mark.requirement("contention.pressure-sheds")
def test_pressure_turns_the_lower_priorities_away_and_says_why() -> None:
    thresholds = Thresholds(
        of={
            Priority.LOW: Pressure(cpu=9_000, memory=2_000),
            Priority.NORMAL: Pressure(memory=6_000),
        }
    )
    tight = Pressure(cpu=9_500, memory=2_500, io=10_000)

    shed = thresholds.sheds(tight, Priority.LOW)

    assert shed == Shed(resource="memory", measured=2_500, threshold=2_000)
    assert thresholds.sheds(tight, Priority.NORMAL) is None
    assert thresholds.sheds(Pressure(memory=6_000), Priority.NORMAL) is not None
    assert thresholds.sheds(Pressure(memory=10_000), Priority.HIGH) is None
    assert thresholds.sheds(Pressure(), Priority.LOW) is None
