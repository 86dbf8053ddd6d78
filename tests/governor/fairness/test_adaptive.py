import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidPolicyError
from governor.fairness.adaptive import (
    KINDS_MAX,
    AdaptiveLimit,
    Adapts,
    Concurrency,
    Ending,
)

BOUNDS = Concurrency(start=50, lowest=4, highest=100)


class Upstream:
    """A limit and a clock: calls one after the other, each at the limit's concurrency."""

    def __init__(self, bounds: Concurrency = BOUNDS) -> None:
        self.limit = AdaptiveLimit(bounds)
        self.now_ms = 0

    def answers(
        self,
        latency_ms: int = 20,
        *,
        ending: Ending = Ending.ANSWERED,
        kind: str = "k",
        in_flight: int | None = None,
    ) -> int:
        began_ms, self.now_ms = self.now_ms, self.now_ms + latency_ms
        self.limit.observe(
            ending,
            kind=kind,
            began_ms=began_ms,
            ended_ms=self.now_ms,
            in_flight=self.limit.limit if in_flight is None else in_flight,
        )
        return self.limit.limit


def test_a_limit_in_use_grows_while_latency_stays_as_it_was() -> None:
    upstream = Upstream()

    assert [upstream.answers() for _ in range(80)][-1] == BOUNDS.highest


def test_a_limit_that_is_not_in_use_proves_nothing_and_stays() -> None:
    upstream = Upstream()

    assert {upstream.answers(in_flight=3) for _ in range(80)} == {BOUNDS.start}


def test_latency_far_above_the_usual_brings_the_limit_down_to_the_lowest() -> None:
    upstream = Upstream()
    for _ in range(40):
        upstream.answers(20)

    assert min(upstream.answers(400) for _ in range(100)) == BOUNDS.lowest


def test_when_latency_comes_back_the_limit_does_too() -> None:
    upstream = Upstream()
    for latency_ms in [20] * 40 + [400] * 30:
        upstream.answers(latency_ms)
    low = upstream.limit.limit

    assert low < BOUNDS.start
    assert [upstream.answers(20) for _ in range(300)][-1] == BOUNDS.highest


def test_calls_of_another_kind_may_take_their_own_time() -> None:
    upstream = Upstream()

    for _ in range(60):
        upstream.answers(20, kind="quick")
        upstream.answers(3_000, kind="slow")

    assert upstream.limit.limit > BOUNDS.start


def test_an_overload_cuts_once_for_all_that_were_under_way() -> None:
    upstream = Upstream()
    for _ in range(30):
        upstream.limit.observe(
            Ending.OVERLOADED, kind="k", began_ms=0, ended_ms=1_000, in_flight=50
        )

    assert upstream.limit.limit == 45
    upstream.limit.observe(
        Ending.OVERLOADED, kind="k", began_ms=1_000, ended_ms=2_000, in_flight=50
    )
    assert upstream.limit.limit == 40


@pytest.mark.parametrize(
    ("adapts", "slow", "failing"),
    [(Adapts.FAILURES, 100, 4), (Adapts.NOTHING, 50, 50), (Adapts.LATENCY, 4, 4)],
)
def test_the_limit_follows_what_it_is_told_to(adapts: Adapts, slow: int, failing: int) -> None:
    bounds = Concurrency(start=50, lowest=4, highest=100, adapts=adapts)
    slowing, losing = Upstream(bounds), Upstream(bounds)
    for latency_ms in [20] * 30 + [5_000] * 90:
        slowing.answers(latency_ms)
        losing.answers(ending=Ending.OVERLOADED)

    assert slowing.limit.limit == slow
    assert losing.limit.limit == failing


@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from(Ending), st.integers(0, 10**7), st.integers(0, 500), st.integers(0, 400)
        ),
        max_size=300,
    )
)
def test_the_limit_never_leaves_its_bounds_and_remembers_a_bounded_number_of_kinds(
    calls: list[tuple[Ending, int, int, int]],
) -> None:
    upstream = Upstream()
    for ending, latency_ms, in_flight, kind in calls:
        limit = upstream.answers(latency_ms, ending=ending, kind=str(kind), in_flight=in_flight)
        assert BOUNDS.lowest <= limit <= BOUNDS.highest
    assert len(upstream.limit._usual) <= KINDS_MAX


def test_more_kinds_than_can_be_remembered_push_out_the_oldest() -> None:
    upstream = Upstream()
    for kind in range(KINDS_MAX + 10):
        upstream.answers(kind=str(kind))

    assert len(upstream.limit._usual) == KINDS_MAX
    assert "0" not in upstream.limit._usual


def test_bounds_that_let_nothing_through_are_refused() -> None:
    with pytest.raises(InvalidPolicyError, match="min = 9, start = 5"):
        Concurrency(start=5, lowest=9, highest=10)
