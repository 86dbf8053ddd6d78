"""How many worked examples are shown for one query.

Each further example helps less than the one before and costs its tokens in full, so there is a
number past which none pays; where none helps, that number is 0. The gain of a class of query is
learned from what its answers with and without examples came to (after DynaICL).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

from governor.learning.averages import UNSEEN, Average

EXAMPLES_MAX = 16
# Of the whole gain, examples bring 1 - e^(-n / this).
_EXAMPLES_TO_MOST = 3.0
_GAIN_AT_FIRST = 0.05
_PRIOR_WEIGHT = 20.0
_FORGETS = 0.99
# Less alike than this, an example is of something else.
_ALIKE_MIN = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleCost:
    """An example that was found: how alike it is, and what its tokens cost in this call."""

    likeness: float
    cost_microusd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesSeen:
    """What answers of one class came to, without examples and with some."""

    without: Average = UNSEEN
    shown: Average = UNSEEN

    def noted(self, score: float, *, examples: int) -> "ExamplesSeen":
        """Return what is seen after the outcome of one more answer."""
        if examples == 0:
            return replace(self, without=self.without.noted(score, kept=_FORGETS))
        return replace(self, shown=self.shown.noted(score, kept=_FORGETS))

    @property
    def gain(self) -> float:
        """Return by how much examples better an answer; below nothing where they harm."""
        # A difference is only as sure as the rarer side of it.
        weight = min(self.without.weight, self.shown.weight)
        seen = self.shown.mean - self.without.mean
        return (_GAIN_AT_FIRST * _PRIOR_WEIGHT + seen * weight) / (_PRIOR_WEIGHT + weight)


NOTHING_SHOWN = ExamplesSeen()


def examples_worth(
    found: Sequence[ExampleCost],
    *,
    seen: ExamplesSeen,
    value_microusd: int,
    most: int = EXAMPLES_MAX,
    left_microusd: int | None = None,
) -> int:
    """Return how many of `found`, the most alike first, are worth their tokens.

    All examples up to the last that pays are shown, for the order is by likeness. `most` bounds
    the number, and `left_microusd` what all of them may cost; None is without a bound.
    """
    best, best_utility = 0, 0.0
    utility, spent = 0.0, 0
    for count, example in enumerate(found[: min(most, EXAMPLES_MAX)], start=1):
        if example.likeness < _ALIKE_MIN:
            break
        spent += example.cost_microusd
        if left_microusd is not None and spent > left_microusd:
            break
        share = exp(-(count - 1) / _EXAMPLES_TO_MOST) - exp(-count / _EXAMPLES_TO_MOST)
        gain = seen.gain * min(example.likeness, 1.0) * share
        utility += value_microusd * gain - example.cost_microusd
        if utility > best_utility:
            best, best_utility = count, utility
    return best
