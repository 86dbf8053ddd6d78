"""Chooses in how many rounds `auto` is answered, and answers so.

It stands above the gateway: each round is a call of the gateway's own, admitted, settled and
recorded like any other. A request that a single call answers best is left to the gateway.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from governor.ids import CallId, TierName
from governor.learning.averages import UsualTokens
from governor.learning.cascade import plan_for
from governor.learning.strategy import Strategy
from governor.tiers import ModelTier
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.model_request import ModelRequest
from runtime.router.auction import Auction, Sold
from runtime.router.cascade import Cascade, Climbed
from runtime.router.conversation import CONVERSING, can_be_asked_again
from runtime.router.fencing import Marker
from runtime.router.forecast import (
    ClassForecaster,
    FittedForecaster,
    Forecast,
    Forecaster,
    Foretell,
    query_class,
)
from runtime.router.learned import Learned, Waiting
from runtime.router.rounds import Asker, Round
from runtime.router.strategy_terms import StrategyTerms
from tool_gateway import telemetry

logger = logging.getLogger(__name__)
# Answers in rounds, as planned.
_Answering = Callable[[], Awaitable[Answer | None]]

AUTO = "auto"
# Who lists a dear tier takes it to be worth its price on a usual query, and somewhat more.
_WORTH = 2.0
_GAIN_MIN = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A request for `auto` with what else decides in how many rounds it is answered.

    `tiers` are those that can serve it, the cheapest first. `wished` is the client's own word.
    What is told of its answers later is told to its `audience` alone.
    """

    request: ModelRequest
    tiers: Sequence[ModelTier]
    audience: str = ""
    task_class: str | None = None
    wished: Strategy | None = None
    has_key: bool = False


class Strategist:
    """Answers requests for `auto` in several rounds where that is expected to pay."""

    def __init__(
        self,
        terms: StrategyTerms,
        *,
        usual: UsualTokens,
        mark: Marker,
        foretell: Foretell | None = None,
    ) -> None:
        """Take the terms, what queries usually take, what fences, and a fitted model if any."""
        self._terms = terms
        self._usual = usual
        self._mark = mark
        self._classes = ClassForecaster(usual)
        self._forecaster: Forecaster = self._classes
        if foretell is not None:
            self._forecaster = FittedForecaster(foretell, self._classes)
        self._is_failing = False
        self.learned = Learned()

    def may_take(self, wished: Strategy | None) -> bool:
        """Tell whether there is a question of more than one round."""
        return (wished or self._terms.strategy) is not Strategy.SINGLE

    async def answer(self, query: Query, asker: Asker) -> Answer | None:
        """Return the answer in several rounds; None where a single call is to answer."""
        strategy = query.wished or self._terms.strategy
        if strategy is Strategy.SINGLE or not _can_be_in_rounds(query):
            return None
        try:
            answering = self._planned(strategy, query, asker)
        except Exception:
            # Whatever is wrong with what was learned, a call is answered as without it.
            telemetry.count_failure("strategist")
            if not self._is_failing:
                logger.exception("rounds cannot be planned; single calls answer")
            self._is_failing = True
            return None
        self._is_failing = False
        return None if answering is None else await answering()

    def scored(self, call_id: CallId, score: float) -> None:
        """Learn the outcome of an answer; one that is not waited for tells nothing."""
        waiting = self.learned.scored(call_id, score)
        if waiting is not None:
            self._classes.scored(waiting.tier_class, score)

    def _planned(self, strategy: Strategy, query: Query, asker: Asker) -> _Answering | None:
        found = self._forecaster.forecast(query.request, query.tiers, task_class=query.task_class)
        value = self._value(found)
        if strategy is Strategy.CASCADE:
            return self._cascade(query, asker, found, value)
        return self._auction(query, asker, found, value)

    def _cascade(
        self, query: Query, asker: Asker, found: Sequence[Forecast], value: int
    ) -> _Answering | None:
        rungs = tuple(found[: self._terms.rungs_max])
        key = _class(query)
        plan = plan_for(
            tuple(one.rung for one in rungs),
            check_microusd=0,
            value_microusd=value,
            seen=self.learned.cascades[key],
        )
        # A client's own wish is not argued with; each climb still has to pay.
        if query.wished is None and plan.strategy is Strategy.SINGLE:
            return None
        judge = next((one for one in found if one.tier.name == self._terms.judge), None)
        cascade = Cascade(
            asker,
            value_microusd=value,
            samples=self._terms.samples,
            judge=judge,
            mark=self._mark,
        )
        return partial(self._climbed, cascade, query, rungs)

    async def _climbed(
        self, cascade: Cascade, query: Query, rungs: Sequence[Forecast]
    ) -> Answer | None:
        climbed = await cascade.run(query.request, rungs)
        self._note_cascade(query, climbed)
        return _told(Strategy.CASCADE, climbed.best, climbed.rounds, climbed.why)

    def _auction(
        self, query: Query, asker: Asker, found: Sequence[Forecast], value: int
    ) -> _Answering | None:
        auction = Auction(
            asker,
            self.learned,
            value_microusd=value,
            query_class=_class(query),
            audience=query.audience,
            mark=self._mark,
            task_class=query.task_class,
        )
        calling = auction.is_called(query.request, found)
        if query.wished is None and not calling.is_worth_it:
            return None
        return partial(self._sold, auction, query, found, calling.why)

    async def _sold(
        self, auction: Auction, query: Query, found: Sequence[Forecast], why: str
    ) -> Answer:
        sold = await auction.run(query.request, found)
        self._note_auction(query, sold)
        return _told(Strategy.AUCTION, sold.best, sold.rounds, f"{why}; {sold.why}")

    def _note_cascade(self, query: Query, climbed: Climbed) -> None:
        best = climbed.best
        if not best.is_served:
            return
        key = _class(query)
        self.learned.cascades.change(
            key,
            lambda seen: seen.paid(
                was_kept=climbed.was_kept,
                draft_microusd=climbed.draft_microusd,
                climb_microusd=climbed.climb_microusd,
            ),
        )
        self._wait(
            query,
            best,
            Waiting(
                query_class=key, tier_class=_tier_class(query, best.tier), was_kept=climbed.was_kept
            ),
        )

    def _note_auction(self, query: Query, sold: Sold) -> None:
        best, won = sold.best, sold.won
        if won is None or not best.is_served:
            return
        tier_class, tokens = _tier_class(query, best.tier), best.output_tokens
        if tokens is not None:
            self.learned.bidders.change(
                tier_class,
                lambda bidder: bidder.served(
                    planned_tokens=won.bid.planned_tokens, output_tokens=tokens
                ),
            )
        self._wait(
            query,
            best,
            Waiting(
                query_class=_class(query),
                tier_class=tier_class,
                bid=won.bid,
                expected=won.expected,
                plan=sold.plan,
                audience=query.audience,
            ),
        )

    def _wait(self, query: Query, best: Round, waiting: Waiting) -> None:
        if best.call_id is not None:
            self.learned.wait_for(best.call_id, waiting)

    def _value(self, found: Sequence[Forecast]) -> int:
        """Return what a good answer is worth."""
        if self._terms.value_microusd is not None:
            return self._terms.value_microusd
        low, high = found[0], found[-1]
        gain = max(high.chance - low.chance, _GAIN_MIN)
        return round(_WORTH * max(high.cost_microusd - low.cost_microusd, 0) / gain)


def _can_be_in_rounds(query: Query) -> bool:
    request = query.request
    return (
        request.model == AUTO
        and request.wire in CONVERSING
        and len(query.tiers) > 1
        and request.choices == 1
        and can_be_asked_again(request)
        # Only one call can be repeated under a key, so a single call answers.
        and not query.has_key
    )


def _class(query: Query) -> str:
    return _tier_class(query, TierName(AUTO))


def _tier_class(query: Query, tier: TierName) -> str:
    return query_class(query.request, tier, task_class=query.task_class)


def _told(strategy: Strategy, best: Round, rounds: Sequence[Round], why: str) -> Answer:
    """Return the best answer with what its rounds were."""
    return best.answer.with_flyball(
        {
            "strategy": {
                "name": strategy.value,
                "why": why,
                "cost_microusd": sum(one.cost_microusd for one in rounds),
                "rounds": [
                    {
                        "call_id": one.call_id,
                        "tier": one.tier,
                        "status": one.answer.status,
                        "cost_microusd": one.cost_microusd,
                    }
                    for one in rounds
                ],
            }
        }
    )
