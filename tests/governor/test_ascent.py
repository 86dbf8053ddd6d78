from hypothesis import given
from hypothesis import strategies as st

from governor.learning.ascent import (
    Ahead,
    RunFeatures,
    RunWeights,
    UsualRun,
    ascent_for,
    failing_chance,
)


def usual(calls: int = 10, cost: int = 10_000) -> UsualRun:
    run = UsualRun()
    for _ in range(20):
        run = run.noted(RunFeatures(calls=calls, cost_microusd=cost))
    return run


AHEAD = Ahead(chance_up=0.75, rest_microusd=5_000, rest_up_microusd=60_000)
SHORT = RunFeatures(calls=8, cost_microusd=8_000)
LONG = RunFeatures(calls=60, cost_microusd=90_000, errors=20, loop_signals=3)


def test_a_run_that_is_long_dear_and_full_of_errors_fails_more_likely() -> None:
    short = failing_chance(SHORT, usual(), RunWeights())

    assert failing_chance(LONG, usual(), RunWeights()) > short + 0.3


def test_a_failing_run_moves_up_and_a_usual_one_stays() -> None:
    def moved(features: RunFeatures) -> bool:
        return ascent_for(
            features, AHEAD, usual=usual(), weights=RunWeights(), value_microusd=300_000
        ).is_worth_it

    assert moved(LONG)
    assert not moved(SHORT)


def test_a_prompt_that_is_cached_holds_a_session_where_it_is() -> None:
    cached = Ahead(
        chance_up=0.75, rest_microusd=5_000, rest_up_microusd=60_000, cache_microusd=10**6
    )

    ascent = ascent_for(LONG, cached, usual=usual(), weights=RunWeights(), value_microusd=300_000)

    assert not ascent.is_worth_it
    assert "is not worth 1055000" in ascent.why


def test_a_run_that_has_only_begun_stays() -> None:
    begun = RunFeatures(calls=2, cost_microusd=10**6, errors=2, loop_signals=9)

    ascent = ascent_for(begun, AHEAD, usual=usual(), weights=RunWeights(), value_microusd=10**9)

    assert not ascent.is_worth_it


def test_weights_follow_what_the_runs_of_a_deployment_come_to() -> None:
    weights = RunWeights()
    long = RunFeatures(calls=60, cost_microusd=60_000)
    before = failing_chance(long, usual(), weights)
    for _ in range(300):
        # Here long runs are the ones that succeed.
        weights = weights.learned(long, usual(), has_failed=False)
        weights = weights.learned(
            RunFeatures(calls=3, cost_microusd=3_000), usual(), has_failed=True
        )

    assert failing_chance(long, usual(), weights) < before - 0.4


@given(
    features=st.builds(
        RunFeatures,
        calls=st.integers(0, 10**6),
        cost_microusd=st.integers(0, 10**12),
        errors=st.integers(0, 10**6),
        loop_signals=st.integers(0, 10**6),
    ),
    outcomes=st.lists(st.booleans(), max_size=30),
)
def test_no_run_is_certain_to_fail_and_no_weight_runs_away(
    features: RunFeatures, outcomes: list[bool]
) -> None:
    weights = RunWeights()
    for has_failed in outcomes:
        weights = weights.learned(features, usual(), has_failed=has_failed)

    assert 0.0 < failing_chance(features, usual(), weights) < 1.0
    assert abs(weights.calls) <= 5.0
