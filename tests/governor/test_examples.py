from hypothesis import given
from hypothesis import strategies as st

from governor.learning.examples import (
    EXAMPLES_MAX,
    NOTHING_SHOWN,
    ExampleCost,
    ExamplesSeen,
    examples_worth,
)


def found(count: int, *, cost: int = 100, likeness: float = 0.8) -> list[ExampleCost]:
    return [ExampleCost(likeness=likeness, cost_microusd=cost) for _ in range(count)]


def seen(without: float, shown: float, *, times: int = 200) -> ExamplesSeen:
    record = NOTHING_SHOWN
    for _ in range(times):
        record = record.noted(without, examples=0).noted(shown, examples=3)
    return record


def test_examples_are_shown_until_the_next_one_does_not_pay() -> None:
    few = examples_worth(found(10, cost=3_000), seen=NOTHING_SHOWN, value_microusd=300_000)
    many = examples_worth(found(10, cost=100), seen=NOTHING_SHOWN, value_microusd=300_000)

    assert 0 < few < many <= 10


def test_none_are_shown_where_they_do_not_pay() -> None:
    assert examples_worth(found(5, cost=10**6), seen=NOTHING_SHOWN, value_microusd=10**6) == 0


def test_none_are_shown_where_they_were_seen_to_harm() -> None:
    harmed = seen(0.8, 0.6)

    assert examples_worth(found(5, cost=1), seen=harmed, value_microusd=10**6) == 0


def test_more_are_shown_where_they_were_seen_to_help() -> None:
    usual = examples_worth(found(10, cost=1_000), seen=NOTHING_SHOWN, value_microusd=100_000)
    helped = examples_worth(found(10, cost=1_000), seen=seen(0.4, 0.8), value_microusd=100_000)

    assert helped > usual


def test_what_is_of_something_else_is_not_shown() -> None:
    unlike = found(5, cost=1, likeness=0.1)

    assert examples_worth(unlike, seen=NOTHING_SHOWN, value_microusd=10**6) == 0


@given(
    costs=st.lists(st.integers(0, 10**4), max_size=30),
    likeness=st.floats(0, 1),
    value=st.integers(0, 10**7),
    most=st.integers(0, 30),
    left=st.none() | st.integers(0, 10**5),
)
def test_never_more_than_is_allowed_nor_dearer_than_is_left(
    costs: list[int], likeness: float, value: int, most: int, left: int | None
) -> None:
    examples = [ExampleCost(likeness=likeness, cost_microusd=cost) for cost in costs]

    count = examples_worth(
        examples, seen=NOTHING_SHOWN, value_microusd=value, most=most, left_microusd=left
    )

    assert 0 <= count <= min(most, EXAMPLES_MAX, len(costs))
    assert left is None or sum(costs[:count]) <= left
