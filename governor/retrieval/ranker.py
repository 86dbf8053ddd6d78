"""How much each thing that speaks for a text counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from governor.errors import InvalidRankerError
from governor.retrieval.columns import Floats
from governor.retrieval.features import BY_MEANING, FEATURES

_WORDLESS = len(FEATURES) - len(BY_MEANING)


class Ranker(Protocol):
    """What makes one score of the features of a text."""

    def scores(self, rows: Floats) -> Floats:
        """Return the score of each column; rows by meaning are there or are not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRanker:
    """A weight for each feature; another set for questions that have no vector."""

    with_meaning: Mapping[str, float]
    by_words: Mapping[str, float]
    _weights: Floats = field(init=False, repr=False, compare=False)
    _word_weights: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Set the weights in the order of the features.

        Raises:
            InvalidRankerError: a weight is of no feature, or is no finite number.
        """
        whole = _ordered(self.with_meaning, FEATURES)
        object.__setattr__(self, "_weights", whole)
        object.__setattr__(self, "_word_weights", _ordered(self.by_words, FEATURES[:_WORDLESS]))

    def scores(self, rows: Floats) -> Floats:
        """Return the weighted sum of the rows."""
        return np.asarray(self.weights_of(len(rows)) @ rows, dtype=np.float32)

    def weights_of(self, total: int) -> Floats:
        """Return the weights of as many features as there are: all, or all but by meaning."""
        return self._weights if total == len(FEATURES) else self._word_weights


def _ordered(weights: Mapping[str, float], names: tuple[str, ...]) -> Floats:
    strange = set(weights) - set(names)
    if strange:
        raise InvalidRankerError(f"it weighs {', '.join(sorted(strange))}, which is no feature")
    ordered = np.array([weights.get(name, 0.0) for name in names], dtype=np.float32)
    if not np.isfinite(ordered).all():
        raise InvalidRankerError("a weight is no finite number")
    return ordered


_BY_WORDS = {
    "item": 1.0,
    "with_before": 0.5,
    "window": 0.5,
    "wide": 0.25,
    "session": 0.25,
    "actor": 0.6,
    "moment": 0.6,
    "answers_words": 0.3,
    "question": -0.2,
    "time_when": 0.2,
    "self": 0.1,
    "length": 0.4,
}
# Set by reason, without fitting: see the card of the shipped ranker.
PLAIN_RANKER = LinearRanker(
    with_meaning={**_BY_WORDS, "near": 0.75, "near_before": 0.25, "near_wide": 0.5},
    by_words=_BY_WORDS,
)
