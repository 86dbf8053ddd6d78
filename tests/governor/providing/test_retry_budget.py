"""The bucket of retries: what a storm of failures may add to the calls that made it."""

from hypothesis import given
from hypothesis import strategies as st

from governor.providing.retry_budget import RetryBudget, RetryBudgetTerms

TERMS = RetryBudgetTerms(retries_max=10, percent=20, per_s=1)


def test_a_storm_gets_the_bucket_and_then_a_fifth_more() -> None:
    budget = RetryBudget(TERMS, now_ms=0)

    retries = 0
    for _ in range(1_000):
        budget.note_call(0)
        retries += budget.take(0)

    assert 200 <= retries <= 210


def test_time_brings_retries_back() -> None:
    budget = RetryBudget(TERMS, now_ms=0)
    while budget.take(0):
        pass

    assert budget.left(999) == 0
    assert budget.left(1_000) == 1
    assert budget.left(10**9) == 10


@given(st.lists(st.tuples(st.integers(min_value=0, max_value=5_000), st.booleans())))
def test_there_are_never_more_retries_than_the_bucket_the_share_and_the_time(
    steps: list[tuple[int, bool]],
) -> None:
    budget, now_ms, taken, calls = RetryBudget(TERMS, now_ms=0), 0, 0, 0

    for passed_ms, is_call in steps:
        now_ms += passed_ms
        if is_call:
            budget.note_call(now_ms)
            calls += 1
        else:
            taken += budget.take(now_ms)

    assert 1_000 * taken <= 10_000 + calls * 200 + now_ms
