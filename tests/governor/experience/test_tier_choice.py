"""Which plan a search is done by."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.experience.passages import Passage
from governor.experience.search import MemoryTier
from governor.experience.stages import PLANS, UNMEASURED
from governor.experience.tier_choice import (
    AXES,
    BELIEVED,
    SEARCHED,
    UNBOUNDED,
    PlanChoice,
    Probe,
    Remaining,
    SearchProfile,
    TierTerms,
    Why,
    chosen,
    context_of,
    features_of,
    nothing_learned,
    probe_of,
)
from governor.learning.bandit import Bandit, Lesson

QUESTION = SearchProfile(words=("where", "is", "the", "key"), items=500)
NOBODY = np.zeros((0, len(PLANS)))


def choice(
    *,
    question: SearchProfile = QUESTION,
    asked: MemoryTier | None = None,
    remaining: Remaining = UNBOUNDED,
    learned: Bandit | None = None,
    dice: float = 0.0,
    has_model: bool = False,
    explored: float = 0.0,
) -> PlanChoice:
    """Return what is chosen."""
    return chosen(
        question,
        asked=asked,
        remaining=remaining,
        prices=UNMEASURED,
        learned=learned,
        terms=TierTerms(explored=explored),
        dice=dice,
        normals=NOBODY,
        has_model=has_model,
    )


def taught(plan: str, reward: float, *, when: SearchProfile, times: int = 200) -> Bandit:
    """Return what is learned where a plan earned so much more than was believed."""
    bandit = nothing_learned()
    for _ in range(times):
        bandit.learn(lesson(plan, reward, when=when))
        bandit.learn(lesson("mid", 0.0, when=when))
    return bandit


def lesson(plan: str, reward: float, *, when: SearchProfile) -> Lesson:
    """Return that a plan earned so much more than was believed."""
    context = features_of(context_of(when), PLANS[plan])
    return Lesson(arm=SEARCHED, context=context, reward=reward, weight=1.0, period=0)


def test_every_plan_is_believed_something_of_and_every_question_is_so_many_numbers() -> None:
    """A plan that is added without a belief would be chosen by nobody."""
    assert set(BELIEVED) == set(PLANS)
    assert len(context_of(QUESTION)) == AXES


def test_what_the_cheapest_search_found_says_how_hard_a_question_is() -> None:
    """One passage with all of the question is another matter than ten with a word of it each."""
    words = ("key", "mat", "door")
    easy = [Passage(number=1, score=9.0, address="a", words=words, tokens=10, session="s")]
    hard = [
        Passage(number=n, score=2.0, address=f"{n}", words=("key",), tokens=10, session=f"{n}")
        for n in range(10)
    ]

    assert probe_of(words, easy).covered > probe_of(words, hard).covered
    assert probe_of(words, easy).sessions < probe_of(words, hard).sessions
    assert probe_of(words, []) == Probe()
    assert all(0 <= value <= 1 for found in (easy, hard) for value in astuple(probe_of((), found)))


@pytest.mark.requirement("memory.tier-forced")
@pytest.mark.parametrize("tier", list(MemoryTier))
def test_who_names_a_tier_gets_it(tier: MemoryTier) -> None:
    """Nothing is learned or explored over a caller's own wish."""
    found = choice(asked=tier, has_model=True, explored=1.0, dice=0.9)

    assert (found.plan.name, found.why) == (tier.value, Why.ASKED)
    assert found.propensity == 1.0


@pytest.mark.requirement("memory.tiers-safe-default")
def test_without_anything_learned_the_usual_plan_is_taken() -> None:
    """What was not shown to be better is not taken."""
    found = choice()

    assert (found.plan.name, found.why) == ("mid", Why.RULE)


@pytest.mark.requirement("memory.tier-degrades")
def test_a_short_budget_makes_a_search_cheaper_and_never_refuses_it() -> None:
    """What is left decides how well a search is done, not whether."""
    short = choice(remaining=Remaining(latency_us=4_000))
    nothing = choice(remaining=Remaining(tokens=0, latency_us=0, cost_microusd=0))
    forced = choice(asked=MemoryTier.HIGH, has_model=True, remaining=Remaining(cost_microusd=0))

    assert (short.plan.retrieve, short.why) == (MemoryTier.LOW, Why.SHORT)
    assert (nothing.plan.name, nothing.why) == ("low", Why.SHORT)
    assert (forced.plan.name, forced.why) == ("mid", Why.SHORT)


def test_a_plan_that_asks_a_model_is_not_taken_where_there_is_none() -> None:
    """A tier that was asked for is done as well as can be without one."""
    found = choice(asked=MemoryTier.HIGH, has_model=False)

    assert found.plan.retrieve is MemoryTier.HIGH
    assert not found.plan.needs_model


@pytest.mark.requirement("memory.tiers-learn")
def test_what_was_learned_decides_by_the_question() -> None:
    """More is spent where it was seen to pay, and not where it was not."""
    spread = Probe(best=0.3, second=0.95, fifth=0.9, last=0.8, covered=0.3, sessions=0.9)
    hard = replace(QUESTION, words=("why", "did", "both", "leave"), probe=spread)
    bandit = taught("again_many", 0.3, when=hard)
    for _ in range(200):
        bandit.learn(lesson("again_many", -0.1, when=QUESTION))
        bandit.learn(lesson("mid", 0.0, when=QUESTION))

    assert choice(question=hard, learned=bandit).plan.name == "again_many"
    assert choice(question=QUESTION, learned=bandit).plan.name != "again_many"


def test_a_gain_that_costs_more_than_it_is_worth_is_left() -> None:
    """Tokens, time and money are held against what an answer is worth."""
    bandit = taught("again_many", 0.05, when=QUESTION)
    long = SearchProfile(words=QUESTION.words, items=500, tokens=20_000, tokens_max=32_000)

    assert choice(question=long, learned=bandit).plan.name != "again_many"


@pytest.mark.requirement("memory.tiers-logged")
@given(
    dice=st.floats(0, 1, exclude_max=True),
    explored=st.floats(0, 1),
    latency_us=st.none() | st.integers(0, 100_000),
    tokens=st.none() | st.integers(0, 10_000),
    has_model=st.booleans(),
    is_learned=st.booleans(),
)
def test_every_choice_says_how_probable_it_was(  # noqa: PLR0917 - what is varied
    dice: float,
    explored: float,
    latency_us: int | None,
    tokens: int | None,
    has_model: bool,  # noqa: FBT001 - hypothesis gives it by name
    is_learned: bool,  # noqa: FBT001 - hypothesis gives it by name
) -> None:
    """The chances add up to one, and what is chosen had one."""
    bandit = taught("again", 0.2, when=QUESTION, times=5) if is_learned else None

    found = choice(
        dice=dice,
        explored=explored,
        remaining=Remaining(latency_us=latency_us, tokens=tokens),
        learned=bandit,
        has_model=has_model,
    )

    assert sum(found.chances.values()) == pytest.approx(1.0)
    assert 0 < found.propensity <= 1.0
    assert has_model or not found.plan.needs_model
