"""How much a writer may write into a lane."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.experience.kinds import TrustLane
from governor.experience.quota import Exceeded, LaneLimit, LaneQuotas, Tally

QUOTAS = LaneQuotas(limits={TrustLane.WEB: LaneLimit(writes_max=3, bytes_max=100)}, window_ms=1_000)


@pytest.mark.requirement("memory.lane-quotas")
@given(sizes=st.lists(st.integers(0, 60), max_size=12))
def test_never_more_gets_into_a_lane_than_its_limit(sizes: list[int]) -> None:
    tally = Tally()
    for size in sizes:
        if QUOTAS.exceeded(TrustLane.WEB, tally, size, now_ms=5) is None:
            tally = tally.plus(size)

    assert tally.writes <= 3
    assert tally.bytes <= 100


@pytest.mark.requirement("memory.lane-quotas")
def test_a_full_lane_says_what_is_full_and_until_when() -> None:
    got = QUOTAS.exceeded(TrustLane.WEB, Tally(writes=3, bytes=10), 1, now_ms=12_345)

    assert got == Exceeded(
        lane=TrustLane.WEB, unit="writes", limit=3, used=3, requested=1, resets_at_ms=13_000
    )


def test_one_that_is_too_long_is_refused_by_its_bytes() -> None:
    got = QUOTAS.exceeded(TrustLane.WEB, Tally(), 101, now_ms=0)

    assert got is not None
    assert (got.unit, got.limit, got.requested) == ("bytes", 100, 101)


def test_a_lane_without_a_limit_takes_anything() -> None:
    tally = Tally(writes=10**9, bytes=10**15)

    assert QUOTAS.exceeded(TrustLane.OPERATOR, tally, 10**9, now_ms=0) is None
    assert LaneQuotas().exceeded(TrustLane.OPERATOR, tally, 1, now_ms=0) is None


@pytest.mark.parametrize("lane", [lane for lane in TrustLane if lane is not TrustLane.OPERATOR])
def test_everybody_but_an_operator_has_a_limit(lane: TrustLane) -> None:
    assert LaneQuotas().exceeded(lane, Tally(writes=10**9), 1, now_ms=0) is not None
