"""Tiers that bid for a query: what a bid is worth, and whether bids are worth their price.

Each tier states its chance of success and the length of its answer in a short plan, as in
SALE. A bidder's word is taken as far as its past bids came true: chances are moved by how much
they were off, lengths by how much longer answers were. And bids cost money themselves. What
they can bring is bounded by how likely they change the choice, so where one tier is clearly
ahead, or the word of bidders told nothing so far, there is no auction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import erf, exp, pi, sqrt

from governor.ids import TierName
from governor.learning.averages import UNSEEN, Average

# What a word of a bidder is worth where no bid was ever scored.
_TOLD_AT_FIRST = 0.2
_PRIOR_WEIGHT = 8.0
_CLAIMS_TRIED = 30
# So far ahead that nothing which is told changes the choice.
_Z_MAX = 30.0
_FORGETS = 0.98
# How much a tier is wrong of its chance, where nobody knows how much.
SPREAD_UNKNOWN = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """What a tier says of a query: its chance, and the length and so the price of its answer."""

    tier: TierName
    claimed: float
    planned_tokens: int
    answer_microusd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bidder:
    """How a tier's past bids came true for one class of query."""

    off_by: Average = UNSEEN
    length_ratio: Average = UNSEEN

    def scored(self, *, claimed: float, score: float) -> "Bidder":
        """Return the bidder after the outcome of a bid became known."""
        return replace(self, off_by=self.off_by.noted(score - claimed, kept=_FORGETS))

    def served(self, *, planned_tokens: int, output_tokens: int) -> "Bidder":
        """Return the bidder after an answer of its was as long as it was."""
        ratio = min(max(output_tokens / max(planned_tokens, 1), 0.05), 20.0)
        return replace(self, length_ratio=self.length_ratio.noted(ratio, kept=_FORGETS))


NEW_BIDDER = Bidder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A bid as it is believed: chance and cost after what is known of its bidder.

    `expected` is the chance before the bid.
    """

    bid: Bid
    expected: float
    chance: float
    cost_microusd: int
    utility_microusd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """A tier before it bid: what is expected of it, and how much that may be wrong."""

    tier: TierName
    chance: float
    spread: float
    cost_microusd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """Whether bids are asked for, what they are expected to bring, and what they cost."""

    is_worth_it: bool
    gain_microusd: float
    cost_microusd: int
    why: str


def weigh(bid: Bid, bidder: Bidder, *, prior: float, trust: float, value_microusd: int) -> Weighed:
    """Return a bid as it is believed: `trust` of its word, the rest what was expected before."""
    off = bidder.off_by.mean * bidder.off_by.weight / (bidder.off_by.weight + _PRIOR_WEIGHT)
    told = min(max(bid.claimed + off, 0.0), 1.0)
    chance = trust * told + (1.0 - trust) * prior
    seen = bidder.length_ratio
    ratio = (_PRIOR_WEIGHT + seen.mean * seen.weight) / (_PRIOR_WEIGHT + seen.weight)
    cost = round(bid.answer_microusd * ratio)
    return Weighed(
        bid=bid,
        expected=prior,
        chance=chance,
        cost_microusd=cost,
        utility_microusd=value_microusd * chance - cost,
    )


def winner(bids: Sequence[Weighed]) -> Weighed:
    """Return the bid that is worth the most; of two alike the cheaper, then the first."""
    assert bids, "somebody bid"
    return max(
        enumerate(bids),
        key=lambda place: (place[1].utility_microusd, -place[1].cost_microusd, -place[0]),
    )[1]


def trust_in(claims: Sequence[tuple[float, float]]) -> float:
    """Return how far the word of bidders tells, from pairs of a claim and its outcome.

    Both are told against what was expected of the bidder, for that one is better than another
    is known without bids. Trust is their correlation, drawn to a low first value and, once
    enough was seen, lowered by its standard error. It is never below nothing: whoever is wrong
    on purpose is not trusted the other way round.
    """
    n = len(claims)
    if n < 2:  # noqa: PLR2004 - a correlation needs two
        return _TOLD_AT_FIRST
    mean_claim = sum(claim for claim, _ in claims) / n
    mean_score = sum(score for _, score in claims) / n
    both = sum((claim - mean_claim) * (score - mean_score) for claim, score in claims)
    spread = sqrt(
        sum((claim - mean_claim) ** 2 for claim, _ in claims)
        * sum((score - mean_score) ** 2 for _, score in claims)
    )
    told = both / spread if spread > 0 else 0.0
    drawn = (told * n + _TOLD_AT_FIRST * _PRIOR_WEIGHT) / (n + _PRIOR_WEIGHT)
    off = 1.0 / sqrt(n) if n >= _CLAIMS_TRIED else 0.0
    return min(max(drawn - off, 0.0), 1.0)


def call_for_bids(
    prospects: Sequence[Prospect],
    *,
    bid_microusd: Mapping[TierName, int],
    trust: float,
    value_microusd: int,
) -> Calling:
    """Return whether asking these tiers for bids is expected to pay.

    The gain is that of knowing better between the best tier and each other one: with a
    difference of means m and a spread of s of which bids tell the share `trust`, it is
    s * trust * (phi(z) - z * (1 - Phi(z))) with z = m / (s * trust). Of several rivals only the
    most promising is counted, so the gain is never overstated.
    """
    price = sum(bid_microusd[prospect.tier] for prospect in prospects)
    if len(prospects) < 2:  # noqa: PLR2004 - an auction has two bidders
        return Calling(is_worth_it=False, gain_microusd=0.0, cost_microusd=price, why="one bidder")
    worth = [value_microusd * one.chance - one.cost_microusd for one in prospects]
    best = max(range(len(prospects)), key=worth.__getitem__)
    gain = max(
        _told_gain(
            worth[best] - worth[place],
            value_microusd * trust * sqrt(prospects[best].spread ** 2 + rival.spread**2),
        )
        for place, rival in enumerate(prospects)
        if place != best
    )
    is_worth_it = gain > price
    word = "are" if is_worth_it else "are not"
    return Calling(
        is_worth_it=is_worth_it,
        gain_microusd=gain,
        cost_microusd=price,
        why=f"bids that bring {gain:.0f} micro-dollars {word} worth {price}",
    )


def _told_gain(ahead: float, told: float) -> float:
    """Return how much better a choice becomes that is told so much of a difference."""
    if told <= 0:
        return 0.0
    z = ahead / told
    if z > _Z_MAX:
        return 0.0
    density = exp(-z * z / 2.0) / sqrt(2.0 * pi)
    return max(told * (density - z * (1.0 - 0.5 * (1.0 + erf(z / sqrt(2.0))))), 0.0)
