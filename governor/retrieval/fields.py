"""BM25F: texts of several fields scored by the words they share with a query.

Robertson, Zaragoza and Taylor (2004): a term's counts are weighted and evened out for length
field by field, added, and only then saturated, so that a word in the name and again in the
description is worth less than two words.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import numpy.typing as npt

_SATURATION = 1.2

Numbers = npt.NDArray[np.intp]
Worths = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldTerms:
    """What a field's words are worth, and how much its length counts: 0 not at all, 1 fully."""

    weight: float
    evenness: float


class WeightedFields:
    """A fixed set of texts; what each word is worth in each is worked out beforehand."""

    def __init__(
        self,
        texts: Sequence[Mapping[str, Mapping[str, int]]],
        fields: Mapping[str, FieldTerms],
    ) -> None:
        """Take each text as its fields' term counts."""
        means = {name: _mean_length(texts, name) for name in fields}
        occurrences: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, text in enumerate(texts):
            weights: dict[str, float] = defaultdict(float)
            for name, terms in fields.items():
                counts = text.get(name, {})
                length = sum(counts.values()) / means[name]
                share = terms.weight / (1 - terms.evenness + terms.evenness * length)
                for term, count in counts.items():
                    weights[term] += share * count
            for term, weight in weights.items():
                occurrences[term].append((number, weight))
        self._total = len(texts)
        self._worth = {term: self._worths(found) for term, found in occurrences.items()}

    def _worths(self, found: Sequence[tuple[int, float]]) -> tuple[Numbers, Worths]:
        rarity = self.rarity_of(len(found))
        worths = [
            rarity * weight * (_SATURATION + 1) / (weight + _SATURATION) for _, weight in found
        ]
        return np.array([number for number, _ in found], dtype=np.intp), np.array(worths)

    def rarity_of(self, texts: int) -> float:
        """Return what a term is worth that occurs in so many of the texts."""
        return log(1 + (self._total - texts + 0.5) / (texts + 0.5))

    def scores(self, query: Collection[str]) -> dict[int, float]:
        """Return the score of each text that holds a term of the query, by its number.

        A word that the query repeats counts once: people repeat themselves without meaning more.
        """
        scores = np.zeros(self._total)
        # Sorted, or the sums would differ in their last digits from process to process.
        for term in sorted(set(query)):
            if term in self._worth:
                numbers, worths = self._worth[term]
                scores[numbers] += worths  # no number twice, so none is lost
        (found,) = scores.nonzero()
        return dict(zip(found.tolist(), scores[found].tolist(), strict=True))


def _mean_length(texts: Sequence[Mapping[str, Mapping[str, int]]], name: str) -> float:
    total = sum(sum(text.get(name, {}).values()) for text in texts)
    return total / len(texts) if total else 1.0
