"""Texts of several fields scored by how near their meaning is to a query's.

A text's vector is the sum of its fields', each of length one and times the field's weight. The
score is the cosine. Fields of names are cut at capitals and underscores first.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from governor.retrieval.vectors import StaticVectors, Vector, scaled

# Nearer than what two texts have in common that have nothing to do with one another.
_NEARNESS_MIN = 0.2
_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")


class TextVectors:
    """A fixed set of texts and where they lie."""

    def __init__(
        self,
        texts: Sequence[Mapping[str, str]],
        weights: Mapping[str, float],
        vectors: StaticVectors,
    ) -> None:
        """Take each text as its fields, and what each field weighs."""
        self._vectors = vectors
        self._places = np.zeros((len(texts), vectors.axes), dtype=np.float32)
        for number, text in enumerate(texts):
            self._places[number] = scaled(self._sum(text, weights))

    def _sum(self, text: Mapping[str, str], weights: Mapping[str, float]) -> Vector:
        total = np.zeros(self._vectors.axes, dtype=np.float32)
        for name, weight in weights.items():
            if text.get(name):
                total += np.float32(weight) * self._of(text[name])
        return total

    def _of(self, text: str) -> Vector:
        return self._vectors.embed(_JOINT.sub(" ", text))

    def scores(self, query: str) -> dict[int, float]:
        """Return the cosine of each text that is near the query, by its number."""
        # Not `@`: its threads take longer to wake than this takes, most of all where cores are few.
        cosines = np.einsum("ij,j->i", self._places, self._of(query))
        (near,) = np.nonzero(cosines >= _NEARNESS_MIN)
        return dict(zip(near.tolist(), cosines[near].tolist(), strict=True))
