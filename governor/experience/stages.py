"""The stages of a search, and the three ways that each can be done (after BudgetMem).

A plan says for each stage at which tier it is done. What a way costs is a running mean of what it
was measured to take; until something was measured, what the table says counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from governor.experience.search import MemoryTier
from governor.learning.averages import Average

LOW, MID, HIGH = MemoryTier.LOW, MemoryTier.MID, MemoryTier.HIGH
# An average that stands for fewer measurements is leaned on the table by so many.
_BELIEF_COUNTS = 4.0


class Stage(StrEnum):
    """What a search does, in this order."""

    FILTER = "filter"
    RETRIEVE = "retrieve"
    EXPAND = "expand"
    RERANK = "rerank"
    SUMMARISE = "summarise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What is paid: tokens a reader gets more or less of, time, and money paid to others.

    `token_share` multiplies the tokens of what is shown: one leaves them as they are.
    """

    latency_us: float = 0.0
    token_share: float = 1.0
    cost_microusd: float = 0.0

    def with_more(self, other: "Price") -> "Price":
        """Return the price of doing both."""
        return Price(
            latency_us=self.latency_us + other.latency_us,
            token_share=self.token_share * other.token_share,
            cost_microusd=self.cost_microusd + other.cost_microusd,
        )


NOTHING_PAID = Price()


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to do a stage: its name, what is believed of its price, what it needs."""

    name: str
    price: Price
    needs_model: bool = False


def _way(name: str, latency_us: float, token_share: float = 1.0, cost: float = 0.0) -> Way:
    price = Price(latency_us=latency_us, token_share=token_share, cost_microusd=cost)
    return Way(name=name, price=price, needs_model=cost > 0)


STAGES: Mapping[Stage, Mapping[MemoryTier, Way]] = MappingProxyType(
    {
        Stage.FILTER: {
            LOW: _way("the best few", 20.0, 0.4),
            MID: _way("as many as asked for", 20.0),
            HIGH: _way("twice as many, nearly the same once", 300.0, 1.8),
        },
        Stage.RETRIEVE: {
            LOW: _way("words", 2_000.0),
            MID: _way("words and vectors", 4_000.0),
            HIGH: _way("again with words of what was found", 9_000.0),
        },
        Stage.EXPAND: {
            LOW: _way("nothing more", 0.0),
            MID: _way("neighbours", 1_000.0, 1.6),
            HIGH: _way("a window of the session", 2_000.0, 2.4),
        },
        Stage.RERANK: {
            LOW: _way("as retrieved", 0.0),
            MID: _way("ranker", 500.0),
            HIGH: _way("ranker and coverage", 1_000.0),
        },
        Stage.SUMMARISE: {
            LOW: _way("stored summary", 0.0),
            MID: _way("sentences that answer", 600.0),
            HIGH: _way("by a model", 900_000.0, 0.5, 150.0),
        },
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """At which tier each stage is done, under the name that the log knows it by."""

    name: str
    filter: MemoryTier
    retrieve: MemoryTier
    expand: MemoryTier
    rerank: MemoryTier
    summarise: MemoryTier

    def tier_of(self, stage: Stage) -> MemoryTier:
        """Return the tier of a stage."""
        match stage:
            case Stage.FILTER:
                return self.filter
            case Stage.RETRIEVE:
                return self.retrieve
            case Stage.EXPAND:
                return self.expand
            case Stage.RERANK:
                return self.rerank
            case Stage.SUMMARISE:
                return self.summarise

    @property
    def needs_model(self) -> bool:
        """Tell whether it can be followed only where a model tier is configured."""
        return any(STAGES[stage][self.tier_of(stage)].needs_model for stage in Stage)

    def without_model(self) -> "Plan":
        """Return the plan as it is followed where no model can be asked."""
        ways = STAGES[Stage.SUMMARISE]
        return replace(self, summarise=MID) if ways[self.summarise].needs_model else self


def _plan(name: str, *tiers: MemoryTier) -> Plan:
    filtered, retrieved, expanded, reranked, summarised = tiers
    return Plan(
        name=name,
        filter=filtered,
        retrieve=retrieved,
        expand=expanded,
        rerank=reranked,
        summarise=summarised,
    )


# Between these a router chooses: the three that a caller can name, and what lies between them.
PLANS: Mapping[str, Plan] = MappingProxyType(
    {
        plan.name: plan
        for plan in (
            _plan("low", LOW, LOW, LOW, LOW, LOW),
            _plan("low_usual", MID, LOW, LOW, LOW, LOW),
            _plan("mid_few", LOW, MID, LOW, MID, LOW),
            _plan("mid_sentences", MID, MID, LOW, MID, MID),
            _plan("mid", MID, MID, LOW, MID, LOW),
            _plan("mid_neighbours", MID, MID, MID, MID, LOW),
            _plan("mid_many", HIGH, MID, LOW, MID, LOW),
            _plan("again", MID, HIGH, LOW, HIGH, LOW),
            _plan("again_many", HIGH, HIGH, LOW, HIGH, LOW),
            _plan("high", HIGH, HIGH, HIGH, HIGH, HIGH),
        )
    }
)


def plan_of(tier: MemoryTier) -> Plan:
    """Return the plan that a caller asks for by a tier."""
    return PLANS[tier.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a way took, on the average of the measurements."""

    latency_us: Average = field(default_factory=Average)
    token_share: Average = field(default_factory=Average)
    cost_microusd: Average = field(default_factory=Average)

    def noted(self, price: Price) -> "Measured":
        """Return what is known after one more measurement."""
        return Measured(
            latency_us=self.latency_us.noted(price.latency_us),
            token_share=self.token_share.noted(price.token_share),
            cost_microusd=self.cost_microusd.noted(price.cost_microusd),
        )

    def leaned_on(self, belief: Price) -> Price:
        """Return the price, believed until it was measured often enough."""
        return Price(
            latency_us=_leaned(self.latency_us, belief.latency_us),
            token_share=_leaned(self.token_share, belief.token_share),
            cost_microusd=_leaned(self.cost_microusd, belief.cost_microusd),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePrices:
    """What each way was measured to take; there are fifteen ways, so this is bounded."""

    measured: Mapping[tuple[Stage, MemoryTier], Measured] = field(default_factory=dict)

    def noted(self, stage: Stage, tier: MemoryTier, price: Price) -> "StagePrices":
        """Return the prices after one more measurement of a way."""
        before = self.measured.get((stage, tier), Measured())
        return StagePrices(measured={**self.measured, (stage, tier): before.noted(price)})

    def of(self, plan: Plan) -> Price:
        """Return what a plan is expected to take."""
        total = NOTHING_PAID
        for stage in Stage:
            way = (stage, plan.tier_of(stage))
            belief = STAGES[stage][way[1]].price
            known = self.measured.get(way)
            total = total.with_more(belief if known is None else known.leaned_on(belief))
        return total


UNMEASURED = StagePrices()


def _leaned(average: Average, belief: float) -> float:
    total = average.weight + _BELIEF_COUNTS
    return (average.mean * average.weight + belief * _BELIEF_COUNTS) / total
