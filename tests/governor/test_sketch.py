"""Quantiles from buckets: the bound that is promised, whatever the values and their order."""

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import AMOUNT_MAX
from governor.sketch import (
    BITS,
    BUCKETS_MAX,
    COUNT_MAX,
    EMPTY,
    Sketch,
    bucket_of,
    highest_in,
)

VALUES = st.one_of(st.integers(0, 200), st.integers(0, AMOUNT_MAX))
STREAMS = st.lists(VALUES, min_size=1, max_size=300)


def sketch_of(values: list[int]) -> Sketch:
    return reduce(Sketch.with_value, values, EMPTY)


def true_quantile(values: list[int], permille: int) -> int:
    rank = max(1, -(-len(values) * permille // 1000))
    return sorted(values)[rank - 1]


@given(VALUES)
def test_a_value_lies_in_its_bucket_and_a_bucket_is_narrow(value: int) -> None:
    bucket = bucket_of(value)
    highest = highest_in(bucket)

    assert 0 <= bucket < BUCKETS_MAX
    assert bucket_of(highest) == bucket
    assert bucket_of(highest + 1) == bucket + 1 or highest >= AMOUNT_MAX
    assert value <= highest <= value + (value >> BITS)


@given(STREAMS, st.integers(0, 1000))
def test_a_quantile_is_never_below_the_true_one_and_at_most_a_bucket_above(
    values: list[int], permille: int
) -> None:
    answered = sketch_of(values).quantile(permille)

    true = true_quantile(values, permille)
    assert answered is not None
    assert true <= answered <= true + (true >> BITS)


@given(STREAMS, STREAMS, st.integers(0, 1000))
def test_two_sketches_together_are_the_sketch_of_both_streams(
    first: list[int], second: list[int], permille: int
) -> None:
    together = sketch_of(first).plus(sketch_of(second))

    assert together == sketch_of(first + second)
    assert together == sketch_of(second).plus(sketch_of(first))
    assert together.quantile(permille) == sketch_of(first + second).quantile(permille)


def test_an_empty_sketch_knows_nothing() -> None:
    assert EMPTY.quantile(950) is None
    assert EMPTY.count == 0


def test_a_sketch_forgets_what_was_long_ago() -> None:
    old, new = sketch_of([1_000_000] * 100), sketch_of([10] * COUNT_MAX)
    for _ in range(8):
        old = old.plus(new)

    assert old.count <= COUNT_MAX
    assert old.quantile(1000) == 10


@given(st.lists(st.tuples(VALUES, st.integers(1, COUNT_MAX)), max_size=50))
def test_a_sketch_is_bounded_whatever_comes(parts: list[tuple[int, int]]) -> None:
    total = EMPTY
    for value, count in parts:
        total = total.plus(Sketch({bucket_of(value): count}))

    assert total.count <= COUNT_MAX
    assert len(total.buckets) <= BUCKETS_MAX
    assert all(count > 0 for count in total.buckets.values())
