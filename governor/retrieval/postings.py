"""Which texts hold a term and how often, kept so that a question's terms are counted at once."""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from governor.retrieval.columns import Floats, Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """How terms are spread over more texts than those at hand, which are a part of them.

    `holders` says how many of `total` texts hold each term that was asked for.
    """

    total: int
    mean_length: float
    holders: Mapping[str, int]


class Postings:
    """The terms of texts, by their places from 0 on; one thread at a time may add."""

    def __init__(self) -> None:
        """Begin with no text."""
        self._places: dict[str, array[int]] = {}
        self._counts: dict[str, array[float]] = {}
        self.size = 0

    def add(self, place: int, terms: Sequence[str]) -> None:
        """Note the terms of the text at `place`, which must be new."""
        for term, count in Counter(terms).items():
            if term not in self._places:
                self._places[term], self._counts[term] = array("i"), array("f")
            self._places[term].append(place)
            self._counts[term].append(count)
            self.size += 1

    def known(self, terms: Sequence[str], *, most: int) -> tuple[str, ...]:
        """Return those of `terms` that some text holds or has held: the rarest, in their order."""
        known = [term for term in terms if term in self._places]
        rarest = sorted(known, key=lambda term: len(self._places[term]))[:most]
        return tuple(term for term in known if term in rarest) if known[most:] else tuple(known)

    def holders(self, term: str) -> int:
        """Return how many texts hold a term or have held it."""
        return len(self._places.get(term, ()))

    def counts(self, terms: Sequence[str], *, seen: Mask) -> Floats:
        """Return how often each of `terms` (rows) stands in each text that is `seen` (columns)."""
        found = np.zeros((len(terms), seen.size), dtype=np.float32)
        for row, term in zip(found, terms, strict=True):
            places: npt.NDArray[np.intc] = np.frombuffer(self._places[term], dtype=np.intc)
            row[places] = np.frombuffer(self._counts[term], dtype=np.float32) * seen[places]
        return found
