"""What is expected of each tier for a request, before any of them is asked."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from governor.ids import TierName
from governor.learning.auction import SPREAD_UNKNOWN
from governor.learning.averages import CLASSES_MAX, UNSEEN, Average, UsualTokens, class_of
from governor.learning.cascade import Rung
from governor.tiers import ModelTier
from runtime.model_gateway.model_request import ModelRequest
from runtime.router.conversation import last_words
from runtime.router.strategy_terms import QUESTION_CHARS_MAX

# Bytes of a request for each token of it, for what is expected; holds are counted otherwise.
_BYTES_PER_TOKEN = 4
_OUTPUT_TOKENS_USUAL = 500
_CHANCE_LOWEST, _CHANCE_HIGHEST = 0.6, 0.9
_PRIOR_WEIGHT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """How likely a tier answers well, how far that may be off, and what it is expected to cost."""

    tier: ModelTier
    chance: float
    spread: float
    cost_microusd: int

    @property
    def rung(self) -> Rung:
        """Return the forecast as a cascade weighs it."""
        return Rung(chance=self.chance, cost_microusd=self.cost_microusd)


class Forecaster(Protocol):
    """Whoever predicts the quality and the cost of tiers for one request."""

    def forecast(
        self, request: ModelRequest, tiers: Sequence[ModelTier], *, task_class: str | None
    ) -> tuple[Forecast, ...]:
        """Return what is expected of each tier, in their order."""
        ...


class ClassForecaster:
    """Predicts by averages: of outcomes, and of output, of each class of query and tier.

    Where no outcome was seen, a later tier is taken for better than an earlier one.
    """

    def __init__(self, usual: UsualTokens, *, classes_max: int = CLASSES_MAX) -> None:
        """Take what queries usually take; of `classes_max` classes the least recent is lost."""
        self._usual = usual
        self._scores: OrderedDict[str, Average] = OrderedDict()
        self._classes_max = classes_max

    def scored(self, query_class: str, score: float) -> None:
        """Note the outcome of an answer of one class, which names its tier."""
        before = self._scores.pop(query_class, UNSEEN)
        self._scores[query_class] = before.noted(score)
        if len(self._scores) > self._classes_max:
            self._scores.popitem(last=False)

    def forecast(
        self, request: ModelRequest, tiers: Sequence[ModelTier], *, task_class: str | None
    ) -> tuple[Forecast, ...]:
        """Return what is expected of each tier, in their order."""
        step = (_CHANCE_HIGHEST - _CHANCE_LOWEST) / max(len(tiers) - 1, 1)
        found = []
        for place, tier in enumerate(tiers):
            key = query_class(request, tier.name, task_class=task_class)
            seen = self._scores.get(key, UNSEEN)
            prior = _CHANCE_LOWEST + step * place
            weight = _PRIOR_WEIGHT + seen.weight
            output = self._usual.of(key) or min(_OUTPUT_TOKENS_USUAL, tier.output_tokens_max)
            found.append(
                Forecast(
                    tier=tier,
                    chance=(prior * _PRIOR_WEIGHT + seen.mean * seen.weight) / weight,
                    spread=SPREAD_UNKNOWN * (_PRIOR_WEIGHT / weight) ** 0.5,
                    cost_microusd=cost_of(tier, request, output_tokens=output),
                )
            )
        return tuple(found)


def cost_of(tier: ModelTier, request: ModelRequest, *, output_tokens: int) -> int:
    """Return what an answer of so many tokens is expected to cost; 0 where no price is known."""
    if tier.price is None:
        return 0
    return tier.price.cost_microusd(
        input_tokens=max(request.body_bytes // _BYTES_PER_TOKEN, 1), output_tokens=output_tokens
    )


def query_class(request: ModelRequest, tier: TierName, *, task_class: str | None) -> str:
    """Return the class of a request at one tier."""
    return class_of(
        task_class=task_class,
        tier=tier,
        chars=request.facts.chars,
        has_tools=request.tools_count > 0,
    )


class ForetoldTier(Protocol):
    """What a fitted model expects of one tier."""

    @property
    def quality(self) -> float:
        """Return the expected quality, from 0 to 1."""
        ...

    @property
    def quality_sd(self) -> float:
        """Return how far that may be off."""
        ...

    @property
    def cost_microusd(self) -> float:
        """Return the expected cost."""
        ...


Foretell = Callable[[str], Mapping[str, ForetoldTier] | None]


class FittedForecaster:
    """Predicts by a fitted model, and by averages what it does not know."""

    def __init__(self, foretell: Foretell, otherwise: Forecaster) -> None:
        """Take the model, which returns None while there is none, and who stands in for it."""
        self._foretell = foretell
        self._otherwise = otherwise

    def forecast(
        self, request: ModelRequest, tiers: Sequence[ModelTier], *, task_class: str | None
    ) -> tuple[Forecast, ...]:
        """Return what is expected of each tier, in their order."""
        found = self._otherwise.forecast(request, tiers, task_class=task_class)
        told = self._foretell(last_words(request, QUESTION_CHARS_MAX))
        if told is None:
            return found
        return tuple(
            one if (fitted := told.get(one.tier.name)) is None else _fitted(one.tier, fitted)
            for one in found
        )


def _fitted(tier: ModelTier, told: ForetoldTier) -> Forecast:
    return Forecast(
        tier=tier,
        chance=min(max(told.quality, 0.0), 1.0),
        spread=max(told.quality_sd, 0.0),
        cost_microusd=max(round(told.cost_microusd), 0),
    )
