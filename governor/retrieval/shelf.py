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

from governor.retrieval.columns import NOWHERE, Columns, Floats, Mask
from governor.retrieval.features import features_of
from governor.retrieval.moments import DAYS_MAX, MS_PER_DAY
from governor.retrieval.postings import Background, Postings
from governor.retrieval.query import QueryParts
from governor.retrieval.ranker import PLAIN_RANKER, Ranker
from governor.retrieval.selection import Selection
from governor.retrieval.speakers import Speakers
from governor.retrieval.vectors import Vector


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
        self._columns = Columns(axes=axes)
        self._postings = Postings()
        self._speakers = Speakers()
        self._total = 0
        self._places: dict[int, int] = {}
        self._sessions: dict[str, int] = {}
        # Of each session, by its number, the place of its last entry.
        self._lasts: list[int] = []

    def __len__(self) -> int:
        """Return how many entries can be found."""
        return len(self._places)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Return the number of each entry by its place, removed ones included."""
        return self._columns.numbers[: self._total]

    @property
    def size_bytes(self) -> int:
        """Return about how much memory it takes."""
        return self._columns.numbers.size * (self._axes * 4 + 160) + self._postings.size * 8

    def background(self, terms: Sequence[str]) -> Background:
        """Return how these terms are spread over the entries, for a shelf of a part of them."""
        length = float(self._columns.lengths @ self._columns.alive)
        return Background(
            total=len(self),
            mean_length=length / max(len(self), 1),
            holders={term: self._postings.holders(term) for term in terms},
        )

    def add(self, entries: Sequence[ShelfEntry]) -> None:
        """Put entries at the next places; one with a number that is there is passed over."""
        self._columns.make_room(self._total + len(entries))
        for entry in entries:
            if entry.number not in self._places:
                self._put(entry, self._total)
                self._total += 1

    def _put(self, entry: ShelfEntry, place: int) -> None:
        columns, terms = self._columns, entry.terms.split()
        self._places[entry.number] = place
        self._postings.add(place, terms)
        columns.numbers[place], columns.lengths[place] = entry.number, len(terms)
        columns.traits[place], columns.alive[place] = entry.traits, True
        columns.actors[place] = self._speakers.number_of(entry.actor)
        columns.days[place] = np.clip(entry.at_ms // MS_PER_DAY, -DAYS_MAX, DAYS_MAX)
        if entry.vector is not None:
            columns.vectors[place] = entry.vector
        session = self._session(entry.session)
        columns.link(place, session=session, last=self._lasts[session])
        self._lasts[session] = place

    def _session(self, name: str) -> int:
        """Return the number of a session; without a name it is one that nothing else is in."""
        number = self._sessions.get(name, len(self._lasts))
        if number == len(self._lasts):
            self._lasts.append(NOWHERE)
            if name:
                self._sessions[name] = number
        return number

    def remove(self, numbers: Iterable[int]) -> None:
        """Find these entries no more; numbers that are not there are passed over."""
        columns = self._columns
        for number in numbers:
            place = self._places.pop(number, None)
            if place is None:
                continue
            session = int(columns.sessions[place])
            if self._lasts[session] == place:
                self._lasts[session] = int(columns.before[place])
            columns.unlink(place)

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
        chosen, sight = self._selection(allowed).select(query)
        if not chosen.size:
            return []
        numbers, scores = self._columns.numbers[chosen], ranker.scores(features_of(sight))
        best = np.argsort(-scores, kind="stable")[:most]
        return list(zip(numbers[best].tolist(), scores[best].tolist(), strict=True))

    def features(
        self, query: QueryParts, *, allowed: Mask | None = None
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return the numbers of the entries that may answer, and their features in columns."""
        chosen, sight = self._selection(allowed).select(query)
        return self._columns.numbers[chosen], features_of(sight)

    def nearest(
        self, vector: Vector, *, allowed: Mask | None = None, most: int
    ) -> list[tuple[int, float]]:
        """Return the `most` entries nearest in meaning as number and cosine, the nearest first."""
        seen = self._columns.alive[: self._total]
        (places,) = np.nonzero(seen if allowed is None else seen & allowed)
        cosines = np.einsum("ij,j->i", self._columns.vectors[: self._total], vector)[places]
        if places.size > most:
            few = np.argpartition(-cosines, most)[:most]
            places, cosines = places[few], cosines[few]
        best = np.argsort(-cosines, kind="stable")
        numbers = self._columns.numbers[places[best]]
        return list(zip(numbers.tolist(), cosines[best].tolist(), strict=True))

    def _selection(self, allowed: Mask | None) -> Selection:
        seen = self._columns.alive[: self._total + 1]
        if allowed is not None:
            seen = seen & np.append(allowed, False)
        return Selection(
            columns=self._columns,
            postings=self._postings,
            speakers=self._speakers,
            seen=seen,
            background=self._background,
        )
