"""The texts of one namespace, held in memory to be searched by words, meaning, place and actor.

A shelf is derived from what is stored and can be thrown away at any time. Entries are added in
the order of their numbers; the place of an entry is how many were added before it, and does not
change: removed entries keep their places, so an owner that has removed many makes a new shelf.
One thread at a time may change a shelf, and none may search it meanwhile.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from governor.retrieval.postings import Background, Floats, Postings
from governor.retrieval.query import QueryParts
from governor.retrieval.ranker import PLAIN_RANKER, Ranker
from governor.retrieval.vectors import Vector

_SATURATION, _EVENNESS = 1.2, 0.75
_GROWTH = 1.5

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfEntry:
    """A text as a shelf takes it: `terms` and `traits` are those of `analysis`.

    Entries of one `session` are neighbours in the order of their numbers; "" is no session, and
    entries without one have no neighbours. `actor` is whose words they are, "" where nobody
    knows. `at_ms` is when, in epoch milliseconds.
    """

    number: int
    session: str
    actor: str
    at_ms: int
    terms: str
    traits: int
    vector: Vector | None = None


class Shelf:
    """Texts that are searched together."""

    def __init__(self, *, axes: int, background: Background | None = None) -> None:
        """Take the axes of vectors, and the `background` where this is a part of a larger whole."""
        self._axes = axes
        self._background = background
        self._postings = Postings()
        self._total = 0
        self._numbers = np.zeros(0, dtype=np.int64)
        self._lengths = np.zeros(0, dtype=np.float32)
        self._alive = np.zeros(0, dtype=np.bool_)
        self._vectors = np.zeros((0, axes), dtype=np.float32)
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        """Return how many entries can be found."""
        return len(self._places)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Return the number of each entry by its place, removed ones included."""
        return self._numbers[: self._total]

    @property
    def size_bytes(self) -> int:
        """Return about how much memory it takes."""
        return int(self._numbers.size * (self._axes * 4 + 64) + self._lengths.sum() * 8)

    def add(self, entries: Sequence[ShelfEntry]) -> None:
        """Put entries at the next places; one with a number that is there is passed over."""
        self._make_room(self._total + len(entries))
        for entry in entries:
            if entry.number in self._places:
                continue
            place = self._total
            terms = entry.terms.split()
            self._postings.add(place, terms)
            self._numbers[place], self._lengths[place] = entry.number, len(terms)
            if entry.vector is not None:
                self._vectors[place] = entry.vector
            self._alive[place] = True
            self._places[entry.number] = place
            self._total += 1

    def remove(self, numbers: Iterable[int]) -> None:
        """Find these entries no more; numbers that are not there are passed over."""
        for number in numbers:
            place = self._places.pop(number, None)
            if place is not None:
                self._alive[place] = False
                self._vectors[place] = 0

    def search(
        self,
        query: QueryParts,
        *,
        allowed: Mask | None = None,
        most: int,
        ranker: Ranker = PLAIN_RANKER,
    ) -> list[tuple[int, float]]:
        """Return at most `most` entries as number and score, the best first.

        `allowed` says of each place whether its entry may be seen; the others are as good as not
        there. An entry that has nothing in common with the question is not found.
        """
        alive = self._alive[: self._total]
        seen = alive if allowed is None else alive & allowed
        scores = self._words(query.terms)
        if query.vector is not None:
            scores = scores + ranker.vector_weight * (self._vectors[: self._total] @ query.vector)
        scores = np.where(seen, scores, 0)
        best = np.argsort(-scores, kind="stable")[:most]
        return [
            (int(self._numbers[place]), float(scores[place])) for place in best if scores[place] > 0
        ]

    def _words(self, terms: Sequence[str]) -> Floats:
        total, lengths = self._total, self._lengths[: self._total]
        counts = self._postings.counts(terms, total)
        mean = float(lengths.mean()) if total else 1.0
        holders = np.array([self._postings.holders(term) for term in terms], dtype=np.float32)
        rarity = np.log1p((total - holders + 0.5) / (holders + 0.5)).astype(np.float32)
        even = _SATURATION * (1 - _EVENNESS + _EVENNESS * lengths / max(mean, 1.0))
        return np.asarray(rarity @ (counts / (counts + even)), dtype=np.float32)

    def _make_room(self, total: int) -> None:
        if total <= self._numbers.size:
            return
        size = max(total, int(self._numbers.size * _GROWTH))
        more = size - self._numbers.size
        self._numbers = np.pad(self._numbers, (0, more))
        self._lengths = np.pad(self._lengths, (0, more))
        self._alive = np.pad(self._alive, (0, more))
        self._vectors = np.pad(self._vectors, ((0, more), (0, 0)))
