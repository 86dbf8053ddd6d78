"""The bandit: what it learns, takes back and forgets, whatever the order."""

import itertools

import numpy as np
import pytest

from governor.learning.bandit import (
    ARMS_MAX,
    Bandit,
    BanditTerms,
    Lesson,
    Vector,
    learned,
    linucb,
    thompson_shares,
)

AXES = 6
TERMS = BanditTerms(dimensions=AXES, keep=0.9)


def contexts(count: int, *, seed: int = 0) -> Vector:
    found = np.random.default_rng(seed).normal(size=(count, AXES)) / 2
    found[:, 0] = 1.0
    return found


def lesson(context: Vector, reward: float, *, period: int = 0, weight: float = 1.0) -> Lesson:
    return Lesson(arm="low", context=context, reward=reward, weight=weight, period=period)


def test_what_was_learned_step_by_step_is_what_regression_finds_at_once() -> None:
    seen = contexts(200)
    rewards = seen @ np.array([0.2, -0.3, 0.1, 0.0, 0.4, -0.1])
    bandit = Bandit(BanditTerms(dimensions=AXES, ridge=2.0))
    for context, reward in zip(seen, rewards, strict=True):
        bandit.learn(lesson(context, float(reward)))

    found = [float(bandit.expected(context, ["low"]).mean[0]) for context in seen[:5]]

    at_once = np.linalg.solve(seen.T @ seen + 2.0 * np.eye(AXES), seen.T @ rewards)
    assert found == pytest.approx(list(seen[:5] @ at_once), abs=1e-9)


@pytest.mark.requirement("router.late-feedback")
def test_the_order_in_which_feedback_arrives_changes_nothing() -> None:
    lessons = [
        lesson(context, reward, period=period)
        for context, reward, period in zip(
            contexts(5), (0.5, -0.2, 0.1, 0.9, -0.4), (0, 3, 1, 7, 2), strict=True
        )
    ]
    asked = contexts(1, seed=9)[0]

    found = set()
    for order in itertools.permutations(lessons):
        expected = learned(Bandit(TERMS), order).expected(asked, ["low"])
        found.add((round(float(expected.mean[0]), 9), round(float(expected.spread[0]), 9)))

    assert len(found) == 1


def test_what_is_taken_back_was_never_learned() -> None:
    first, second = contexts(2)
    bandit = learned(Bandit(TERMS), [lesson(first, 0.5, period=2), lesson(second, -0.5, period=5)])

    bandit.learn(lesson(second, -0.5, period=5, weight=-1.0))

    alone = learned(Bandit(TERMS), [lesson(first, 0.5, period=2)])
    alone.learn(lesson(second, 0.0, period=5, weight=0.0))
    asked = contexts(1, seed=3)[0]
    ours, theirs = bandit.expected(asked, ["low"]), alone.expected(asked, ["low"])
    assert ours.mean == pytest.approx(theirs.mean, abs=1e-9)
    assert ours.spread == pytest.approx(theirs.spread, abs=1e-9)
    assert bandit.evidence("low") == pytest.approx(0.9**3)


def test_a_bandit_goes_on_from_what_was_kept_of_it() -> None:
    lessons = [lesson(one, 0.3, period=at) for at, one in enumerate(contexts(20))]
    half = learned(Bandit(TERMS), lessons[:10])

    on = learned(Bandit(TERMS, half.arms), lessons[10:])

    whole = learned(Bandit(TERMS), lessons)
    asked = contexts(1, seed=4)[0]
    assert on.expected(asked, ["low"]).mean == pytest.approx(whole.expected(asked, ["low"]).mean)
    assert on.evidence("low") == pytest.approx(whole.evidence("low"))


def test_an_arm_that_nobody_tried_is_expected_as_the_prior_says_and_least_sure() -> None:
    bandit = Bandit(BanditTerms(dimensions=AXES, optimism=0.25))
    for context in contexts(50):
        bandit.learn(lesson(context, 0.0))

    found = bandit.expected(np.eye(AXES)[0], ["low", "new"])

    assert found.mean[1] == pytest.approx(0.25)
    assert found.spread[1] > 3 * found.spread[0]


def test_a_drift_leaves_a_part_and_makes_less_sure() -> None:
    bandit = learned(Bandit(TERMS), [lesson(context, 0.4) for context in contexts(100)])
    asked = np.eye(AXES)[0]
    before = bandit.expected(asked, ["low"])

    bandit.forget("low", keep=0.1)

    after = bandit.expected(asked, ["low"])
    assert after.spread[0] > 2 * before.spread[0]
    assert bandit.evidence("low") == pytest.approx(10.0)


def test_linucb_and_thompson_both_find_the_better_arm() -> None:
    dice = np.random.default_rng(5)
    truth = {"low": np.array([0.0, 0.4, 0, 0, 0, 0]), "high": np.array([0.1, -0.4, 0, 0, 0, 0])}
    arms = list(truth)
    for uses_thompson in (False, True):
        bandit = Bandit(BanditTerms(dimensions=AXES))
        right = 0
        seen = contexts(1_500, seed=6)
        for at, context in enumerate(seen):
            found = bandit.expected(context, arms)
            shares = thompson_shares(found.mean, found.spread, dice.standard_normal((8, 2)))
            chosen = (
                int(dice.choice(2, p=shares))
                if uses_thompson
                else linucb(found.mean, found.spread, confidence=0.5)
            )
            worth = [float(truth[arm] @ context) for arm in arms]
            reward = worth[chosen] + float(dice.normal(0, 0.3))
            bandit.learn(
                Lesson(arm=arms[chosen], context=context, reward=reward, weight=1.0, period=0)
            )
            right += at >= 500 and worth[chosen] == max(worth)

        # By chance it would be half of them.
        assert right > 0.8 * 1_000


def test_thompson_shares_are_propensities() -> None:
    shares = thompson_shares(
        np.array([0.5, 0.4]), np.array([0.1, 0.1]), np.random.default_rng(1).normal(size=(500, 2))
    )

    assert shares.sum() == pytest.approx(1.0)
    assert 0.6 < shares[0] < 0.9


def test_to_be_asked_of_an_arm_takes_no_place() -> None:
    bandit = Bandit(BanditTerms(dimensions=2, optimism=0.5))

    found = bandit.expected(np.ones(2), [f"arm{number}" for number in range(2 * ARMS_MAX)])

    assert not bandit.arms
    assert found.mean.tolist() == [0.5] * (2 * ARMS_MAX)
    assert found.spread == pytest.approx([bandit.terms.scatter * 2**0.5] * (2 * ARMS_MAX))


def test_arms_of_old_names_give_way_to_new_ones() -> None:
    bandit = Bandit(BanditTerms(dimensions=1))
    for number in range(ARMS_MAX + 10):
        lesson = Lesson(
            arm=f"arm{number}", context=np.ones(1), reward=1.0, weight=1.0, period=1 + number
        )
        bandit.learn(lesson)

    fresh = bandit.expected(np.ones(1), ["arm9", "arm10", "never"])

    assert list(bandit.arms) == [f"arm{number}" for number in range(10, ARMS_MAX + 10)]
    assert fresh.mean.tolist() == [0.0, 0.5, 0.0]
