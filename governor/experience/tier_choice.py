"""Which plan a search is done by: what is asked for, what is left, and what was learned.

Pure: what is believed of the plans, what they take and the dice are arguments. Each choice says
how probable every plan was, so that what another choice would have earned can be told from the log.
A budget that is short never refuses a search: it is done as cheaply as can be, and says so.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache, lru_cache
from math import ceil, log1p
from operator import attrgetter

import numpy as np

from governor.experience.passages import Passage, Words
from governor.experience.search import MemoryTier
from governor.experience.stages import PLANS, Plan, Price, Stage, StagePrices, plan_of
from governor.learning.bandit import Bandit, BanditTerms, Vector
from governor.learning.choice import (
    ChoiceTerms,
    Exploration,
    Objective,
    Option,
    drawn,
    preferred,
    propensities,
    share_left,
)

# How good an answer a plan finds, before anything was learned: what more work adds grows less.
BELIEVED: Mapping[str, float] = {
    "low": 0.60,
    "low_usual": 0.68,
    "mid_few": 0.62,
    "mid_sentences": 0.69,
    "mid": 0.70,
    "mid_neighbours": 0.71,
    "mid_many": 0.72,
    "again": 0.70,
    "again_many": 0.72,
    "high": 0.73,
}
_COLUMNS = {name: column for column, name in enumerate(PLANS)}
_NEED_MODEL = frozenset(name for name, plan in PLANS.items() if plan.needs_model)
# What a measurement may exceed the mean by before a budget is called too short for it.
_MARGIN = 1.5
_WORDS_USUAL = 12.0
_ITEMS_USUAL = 10_000.0
_SCORE_USUAL, _LENGTH_USUAL = 4.0, 200.0
PROBED_MAX, _USUAL_OF = 10, 5
_TOKENS_USUAL = 4_000.0
_ASKS = (("when", "date", "year"), ("who", "whose", "whom"), ("why", "how"), ("list", "all"))


class Why(StrEnum):
    """Why a search is done by its plan."""

    ASKED = "asked"
    """The caller named the tier."""
    SHORT = "short"
    """Nothing dearer fits what is left."""
    RULE = "rule"
    """Nothing that was learned is in force."""
    LEARNED = "learned"
    """It is the best that was learned."""
    EXPLORED = "explored"
    """It was tried, to learn from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """What a search may still take; None is no bound."""

    tokens: int | None = None
    latency_us: int | None = None
    cost_microusd: int | None = None


UNBOUNDED = Remaining()


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTerms:
    """What counts in a choice.

    `worth_microusd` is what a right answer is worth to whoever asks; a thousand tokens and a
    second cost as much as is said here. `explored` is the share of the searches that is tried
    out. `fallback` is the plan while nothing that was learned is in force. `cost_max_microusd` is
    what a search may pay to others; None is no bound.
    """

    worth_microusd: float = 2_000.0
    thousand_tokens_microusd: float = 150.0
    second_microusd: float = 100.0
    explored: float = 0.05
    fallback: str = MemoryTier.MID.value
    cost_max_microusd: int | None = None

    def costs(self, price: Price, *, tokens: float) -> float:
        """Return in micro-dollars what a plan takes that shows so many tokens."""
        return (
            price.cost_microusd
            + self.thousand_tokens_microusd * tokens * price.token_share / 1_000
            + self.second_microusd * price.latency_us / 1_000_000
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What the cheapest search, which is always made first, tells of a question, each about 0 to 1.

    How much the best passage has of the question, how the scores fall off behind it, how much of
    the question is found in one passage and in several, in how many sessions, and how long they
    are: from these it can be told where more work would find more.
    """

    best: float = 0.0
    second: float = 0.0
    fifth: float = 0.0
    last: float = 0.0
    covered: float = 0.0
    covered_most: float = 0.0
    covered_usual: float = 0.0
    sessions: float = 0.0
    length: float = 0.0


NOT_PROBED = Probe()
# What is learned is one thing: what a search by some plan, for some question, is worth.
SEARCHED = "searched"
_PROBED_AXES = len(fields(Probe))
# Not `astuple`, which copies each number deeply.
_PROBE_OF = attrgetter(*(one.name for one in fields(Probe)))
AXES = 11 + _PROBED_AXES


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProfile:
    """What is known of a search before it is done.

    `words` are those of the question, `items` how many experiences may be found, `tokens` about
    how many would be shown, `tokens_max` how many may be.
    """

    words: tuple[str, ...]
    has_number: bool = False
    has_time: bool = False
    items: int = 0
    tokens: int = 1_000
    tokens_max: int = 2_000
    has_vectors: bool = True
    probe: Probe = NOT_PROBED


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChoice:
    """The plan that was chosen, how probable each was, and what each was expected to do."""

    plan: Plan
    why: Why
    chances: Mapping[str, float] = field(default_factory=dict)
    expected: Mapping[str, Option] = field(default_factory=dict)
    price: float = 0.0

    @property
    def propensity(self) -> float:
        """Return how probable the chosen plan was."""
        return self.chances.get(self.plan.name, 1.0)


def context_of(question: SearchProfile) -> Vector:
    """Return a question as numbers that its words cannot be told from; the first is constant."""
    words = frozenset(word.lower() for word in question.words)
    asks = [float(any(word in words for word in these)) for these in _ASKS]
    return np.array(
        [
            1.0,
            min(len(question.words) / _WORDS_USUAL, 2.0),
            *asks,
            float(question.has_number),
            float(question.has_time),
            log1p(question.items) / log1p(_ITEMS_USUAL),
            min(question.tokens_max / _TOKENS_USUAL, 2.0),
            float(question.has_vectors),
            *_PROBE_OF(question.probe),
        ]
    )


def probe_of(question: Words, found: Sequence[Passage]) -> Probe:
    """Return what the passages that the cheapest search found tell of a question.

    Of the first `PROBED_MAX` the words are looked at.
    """
    passages = found[:PROBED_MAX]
    if not passages:
        return NOT_PROBED
    asked = frozenset(question)
    whole = max(1, len(asked))
    scores = [passage.score for passage in passages] + [0.0] * (PROBED_MAX - len(passages))
    top = scores[0] or 1.0
    covers = [len(asked & frozenset(passage.words)) / whole for passage in passages]
    return Probe(
        best=min(1.0, scores[0] / whole / _SCORE_USUAL),
        second=scores[1] / top,
        fifth=scores[4] / top,
        last=scores[-1] / top,
        covered=covers[0],
        covered_most=max(covers),
        covered_usual=sum(covers[:_USUAL_OF]) / min(_USUAL_OF, len(covers)),
        sessions=len({passage.session for passage in passages}) / PROBED_MAX,
        length=min(1.0, sum(one.tokens for one in passages) / len(passages) / _LENGTH_USUAL),
    )


def features_of(context: Vector, plan: Plan) -> Vector:
    """Return a question together with the plan that it may be searched by, as numbers.

    What is common to all plans, that some questions are hard, is learned of all of them at once;
    what a stage adds at a higher tier is learned of every plan that does it so.
    """
    (features,) = _features_of_each(context, [plan])
    return np.asarray(features)


def _features_of_each(context: Vector, plans: Sequence[Plan]) -> Vector:
    """Return the features of each of several plans, a row for each."""
    probed = np.concatenate([context[:1], context[-_PROBED_AXES:]])
    steps = np.array([_steps_of(plan) for plan in plans])
    taken = steps[:, :, None] * probed
    whole = np.empty((len(plans), AXES + steps.shape[1] * probed.size))
    whole[:, :AXES] = context
    whole[:, AXES:] = taken.reshape(len(plans), -1)
    return whole


@lru_cache(maxsize=4 * len(PLANS))
def _steps_of(plan: Plan) -> tuple[float, ...]:
    """Return for each stage whether it is done at the middle tier or above, and at the highest."""
    tiers = list(MemoryTier)
    reached = [tiers.index(plan.tier_of(stage)) for stage in Stage]
    return tuple(float(tier >= step) for tier in reached for step in (1, 2))


def nothing_learned(*, keep: float = 1.0) -> Bandit:
    """Return what is known of plans before anybody said what became of a search."""
    dimensions = AXES + 2 * len(Stage) * (1 + _PROBED_AXES)
    return Bandit(BanditTerms(dimensions=dimensions, ridge=4.0, scatter=0.4, keep=keep))


def chosen(
    question: SearchProfile,
    *,
    asked: MemoryTier | None,
    remaining: Remaining,
    prices: StagePrices,
    learned: Bandit | None,
    terms: TierTerms,
    dice: float,
    normals: Vector,
    has_model: bool,
) -> PlanChoice:
    """Return the plan for a search.

    `learned` is None while nothing that was learned is in force. `dice` is a number from 0 to
    below 1, `normals` standard normal draws with a column for each of `PLANS`, or none.
    """
    if asked is not None:
        return _forced(asked, question, remaining=remaining, prices=prices, has_model=has_model)
    plans: Collection[Plan] = PLANS.values()
    if learned is None and terms.explored <= 0.0 and terms.fallback in PLANS:
        # Nothing else would be taken while this one fits: then of the others nothing is asked.
        usual = PLANS[terms.fallback]
        may = has_model or usual.name not in _NEED_MODEL
        if may and _fits(prices.of(usual), question, remaining):
            plans = (usual,)
    fitting = {
        plan: expected
        for plan in plans
        if (has_model or plan.name not in _NEED_MODEL)
        and _fits(expected := prices.of(plan), question, remaining)
    }
    if not fitting:
        plan = plan_of(MemoryTier.LOW)
        return PlanChoice(plan=plan, why=Why.SHORT, chances={plan.name: 1.0})
    options = _options(fitting, question, learned=learned, terms=terms)
    price = 1.0 / terms.worth_microusd
    best = _best(options, learned, terms, price=price)
    share = terms.explored
    if learned is not None:
        share = share_left(share, [learned.evidence(SEARCHED) / len(options)])
    columns = [_COLUMNS[one.tier] for one in options]
    draws = normals[:, columns] if len(normals) else normals
    left = remaining.cost_microusd
    chances = propensities(options, best, Exploration(share=share, left_microusd=left), draws)
    at = drawn(chances, dice)
    named = {one.tier: float(chance) for one, chance in zip(options, chances, strict=True)}
    return PlanChoice(
        plan=PLANS[options[at].tier],
        why=_why(at, best, options, learned, terms),
        chances={name: chance for name, chance in named.items() if chance > 0},
        expected={one.tier: one for one in options},
        price=price,
    )


def _fits(price: Price, question: SearchProfile, remaining: Remaining) -> bool:
    """Tell whether what is left is enough for a plan, with some room for what varies."""
    tokens = min(question.tokens * price.token_share, question.tokens_max)
    return (
        _within(tokens, remaining.tokens)
        and _within(price.latency_us * _MARGIN, remaining.latency_us)
        and _within(price.cost_microusd * _MARGIN, remaining.cost_microusd)
    )


def _within(needed: float, left: int | None) -> bool:
    return left is None or needed <= left


def _forced(
    asked: MemoryTier,
    question: SearchProfile,
    *,
    remaining: Remaining,
    prices: StagePrices,
    has_model: bool,
) -> PlanChoice:
    """Return what the caller named, or the best below it that what is left is enough for."""
    tiers = list(MemoryTier)
    for tier in reversed(tiers[: tiers.index(asked) + 1]):
        plan = plan_of(tier)
        plan = plan if has_model else plan.without_model()
        if _fits(prices.of(plan), question, remaining):
            why = Why.ASKED if tier is asked else Why.SHORT
            return PlanChoice(plan=plan, why=why, chances={plan.name: 1.0})
    plan = plan_of(MemoryTier.LOW)
    why = Why.ASKED if asked is MemoryTier.LOW else Why.SHORT
    return PlanChoice(plan=plan, why=why, chances={plan.name: 1.0})


def _options(
    plans: Mapping[Plan, Price],
    question: SearchProfile,
    *,
    learned: Bandit | None,
    terms: TierTerms,
) -> list[Option]:
    """Return what is believed of plans."""
    bandit = _nothing_learned() if learned is None else learned
    tokens = min(question.tokens, question.tokens_max)
    known = bandit.expected_in(_features_of_each(context_of(question), list(plans)), SEARCHED)
    return [
        Option(
            tier=plan.name,
            quality=min(1.0, max(0.0, BELIEVED[plan.name] + mean)),
            spread=spread,
            cost_microusd=terms.costs(price, tokens=tokens),
            cost_max_microusd=ceil(price.cost_microusd * _MARGIN),
        )
        for (plan, price), mean, spread in zip(
            plans.items(), known.mean.tolist(), known.spread.tolist(), strict=True
        )
    ]


@cache
def _nothing_learned() -> Bandit:
    """Return a bandit that is only asked."""
    return nothing_learned()


def _best(
    options: Sequence[Option], learned: Bandit | None, terms: TierTerms, *, price: float
) -> int:
    """Return the best by what was learned; without that the fallback, or what is next below."""
    if learned is None:
        order = [one.tier for one in options]
        if terms.fallback in order:
            return order.index(terms.fallback)
    return preferred(options, ChoiceTerms(objective=Objective.VALUE, price=price, target=0.0))


def _why(
    at: int, best: int, options: Sequence[Option], learned: Bandit | None, terms: TierTerms
) -> Why:
    if at != best:
        return Why.EXPLORED
    if learned is not None:
        return Why.LEARNED
    return Why.RULE if options[best].tier == terms.fallback else Why.SHORT
