import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.learning.cascade import (
    NOTHING_SEEN,
    CascadeSeen,
    Rung,
    cascade_utility,
    climb_from,
    good_after_bad,
    plan_for,
)
from governor.learning.signs import (
    CHANCE_MAX,
    CHANCE_MIN,
    Sign,
    agreement_sign,
    chance_after,
    ending_sign,
    judge_sign,
    shape_sign,
)
from governor.learning.strategy import Strategy

CHANCES = st.floats(0.0, 1.0)
COSTS = st.integers(0, 10**7)
RUNGS = st.builds(Rung, chance=CHANCES, cost_microusd=COSTS)
VALUES = st.integers(0, 10**8)

LOW = Rung(chance=0.6, cost_microusd=1_000)
HIGH = Rung(chance=0.9, cost_microusd=50_000)


@given(rungs=st.lists(RUNGS, min_size=1, max_size=4).map(tuple), check=COSTS, value=VALUES)
def test_a_cascade_is_planned_only_where_it_is_better_than_every_single_call(
    rungs: tuple[Rung, ...], check: int, value: int
) -> None:
    plan = plan_for(rungs, check_microusd=check, value_microusd=value)

    singles = [value * rung.chance - rung.cost_microusd for rung in rungs]
    assert plan.utility_microusd >= max(singles)
    if plan.strategy is Strategy.SINGLE:
        assert plan.utility_microusd == singles[plan.start]
    else:
        assert plan.utility_microusd > max(singles)


@given(value=st.integers(0, 300_000))
def test_where_the_cheap_tier_is_as_good_and_little_at_stake_nothing_is_paid_for_checks(
    value: int,
) -> None:
    rungs = (Rung(chance=0.9, cost_microusd=1_000), Rung(chance=0.9, cost_microusd=50_000))

    plan = plan_for(rungs, check_microusd=100, value_microusd=value)

    assert (plan.strategy, plan.start) == (Strategy.SINGLE, 0)


def test_a_cascade_is_planned_where_drafts_are_cheap_and_mostly_kept() -> None:
    seen = NOTHING_SEEN
    for turn in range(200):
        was_kept = turn % 4 != 0
        seen = seen.paid(
            was_kept=was_kept,
            draft_microusd=1_100,
            climb_microusd=None if was_kept else 50_000,
        ).scored(was_kept=was_kept, score=0.95)

    plan = plan_for((LOW, HIGH), check_microusd=100, value_microusd=200_000, seen=seen)

    assert plan.strategy is Strategy.CASCADE


def test_a_cascade_that_escalates_what_is_dear_at_the_better_tier_is_given_up() -> None:
    """Hard queries cost most everywhere: that is what eats a whole-run cascade's saving."""
    seen = NOTHING_SEEN
    for turn in range(400):
        was_kept = turn % 2 == 0
        seen = seen.paid(
            was_kept=was_kept,
            draft_microusd=6_000,
            climb_microusd=None if was_kept else 90_000,
        ).scored(was_kept=was_kept, score=0.8 if was_kept else 0.5)

    plan = plan_for((LOW, HIGH), check_microusd=100, value_microusd=200_000, seen=seen)

    assert plan.strategy is Strategy.SINGLE
    assert "a cascade" in plan.why


@given(belief=CHANCES, chance=CHANCES, draft=CHANCES, cost=COSTS, value=VALUES)
def test_a_climb_is_worth_it_only_for_more_than_it_costs(
    belief: float, chance: float, draft: float, cost: int, value: int
) -> None:
    climb = climb_from(
        belief,
        Rung(chance=chance, cost_microusd=cost),
        draft_chance=draft,
        value_microusd=value,
        left_microusd=None,
    )

    assert climb.is_worth_it == (climb.gain_microusd > cost)


def test_nothing_is_climbed_for_that_the_budget_does_not_afford() -> None:
    climb = climb_from(0.02, HIGH, draft_chance=0.6, value_microusd=10**7, left_microusd=49_999)

    assert not climb.is_worth_it
    assert "49999 are left" in climb.why


@given(draft=CHANCES, after=CHANCES)
def test_a_better_tier_does_no_better_where_the_draft_was_wrong_than_on_average(
    draft: float, after: float
) -> None:
    rest = good_after_bad(draft, after)

    assert 0.0 <= rest <= after


@given(
    prior=CHANCES,
    signs=st.lists(st.builds(Sign, says=st.just(""), log_odds=st.floats(-50, 50)), max_size=5),
)
def test_no_number_of_signs_makes_an_answer_certain(prior: float, signs: list[Sign]) -> None:
    assert CHANCE_MIN <= chance_after(prior, signs) <= CHANCE_MAX


def test_an_unusable_answer_is_not_saved_by_other_signs() -> None:
    judge = judge_sign(1.0)
    assert judge is not None

    assert chance_after(0.99, [judge, shape_sign("it is no JSON")]) < 0.05
    assert chance_after(0.5, [shape_sign(None)]) > 0.5


@given(samples=st.integers(1, 8), alike=st.integers(0, 8))
def test_more_agreement_never_lowers_the_odds(samples: int, alike: int) -> None:
    alike = min(alike, samples)
    fewer = agreement_sign(max(alike - 1, 0), samples)
    more = agreement_sign(alike, samples)

    assert fewer is not None
    assert more is not None
    assert fewer.log_odds <= more.log_odds


@pytest.mark.parametrize(
    ("is_cut", "is_empty", "lowers"), [(True, False, True), (False, True, True)]
)
def test_an_answer_that_broke_off_is_believed_less(
    *, is_cut: bool, is_empty: bool, lowers: bool
) -> None:
    sign = ending_sign(is_cut=is_cut, is_empty=is_empty)

    assert sign is not None
    assert (sign.log_odds < 0) is lowers
    assert ending_sign(is_cut=False, is_empty=False) is None


def test_what_was_seen_replaces_what_was_expected() -> None:
    seen = CascadeSeen()
    before = cascade_utility(LOW, HIGH, check_microusd=0, value_microusd=100_000, seen=seen)
    for _ in range(300):
        seen = seen.paid(was_kept=True, draft_microusd=1_000, climb_microusd=None).scored(
            was_kept=True, score=1.0
        )

    after = cascade_utility(LOW, HIGH, check_microusd=0, value_microusd=100_000, seen=seen)

    assert after > before
    assert after == pytest.approx(99_000, abs=5_000)
