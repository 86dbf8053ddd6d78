"""What a question finds in each namespace, and all of them together, as numbers and scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from governor.experience.search import Filters, MemoryTier
from governor.retrieval.query import QueryParts
from governor.retrieval.ranker import Ranker
from memory_store.search.candidates import close_to, nearest
from memory_store.search.columns import Mask
from memory_store.search.held import Held
from memory_store.search.ranking import Candidates, Scored, candidates_of, ranked
from memory_store.search.rows import Place
from memory_store.search.shelves import Shelves
from memory_store.statement import Driver

_CANDIDATES = {MemoryTier.LOW: 48, MemoryTier.MID: 64, MemoryTier.HIGH: 192}
_NO_PLACES = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of namespaces: at most `most` are wanted, at `now_ms`."""

    parts: QueryParts
    places: Sequence[Place]
    filters: Filters
    tier: MemoryTier
    most: int
    now_ms: int


def best(shelves: Shelves, driver: Driver, question: Question, *, ranker: Ranker) -> Scored:
    """Return the best by words and meaning, the best first."""
    parts, most = question.parts, question.most
    found: list[Candidates] = []
    axes = 0
    for place in question.places:
        with shelves.at(place, driver) as held:
            axes = held.axes
            allowed = held.columns.mask(question.filters, now_ms=question.now_ms)
            if held.shelf is not None and len(question.places) == 1:
                return held.shelf.search(parts, allowed=allowed, most=most, ranker=ranker)
            found.append(_candidates(held, driver, question, allowed=allowed, ranker=ranker))
    return ranked(driver, parts, found, axes=axes, most=most, ranker=ranker)


def nearest_in_meaning(shelves: Shelves, driver: Driver, question: Question) -> Scored:
    """Return the nearest by their vectors alone, the nearest first."""
    found: Scored = []
    vector = question.parts.vector
    assert vector is not None, "the caller looked"
    for place in question.places:
        with shelves.at(place, driver) as held:
            allowed = held.columns.mask(question.filters, now_ms=question.now_ms)
            if held.shelf is not None:
                found += held.shelf.nearest(vector, allowed=allowed, most=question.most)
                continue
            near = nearest(held, driver, question.parts, allowed=allowed, also=_NO_PLACES)
            numbers = held.columns.numbers[near.places]
            found += zip(numbers.tolist(), near.cosines.tolist(), strict=True)
    found.sort(key=lambda pair: -pair[1])
    return found[: question.most]


def _candidates(
    held: Held, driver: Driver, question: Question, *, allowed: Mask, ranker: Ranker
) -> Candidates:
    parts, most = question.parts, max(_CANDIDATES[question.tier], question.most)
    if held.shelf is None:
        background = held.spread.among(parts.terms, total=len(held.columns))
        places = close_to(held, driver, parts, allowed=allowed, most=most)
    else:
        background = held.shelf.background(parts.terms)
        scored = held.shelf.search(parts, allowed=allowed, most=most, ranker=ranker)
        numbers = np.array([number for number, _ in scored], dtype=np.int64)
        places = held.columns.places_of(numbers)
    return candidates_of(held, places, allowed=allowed, background=background)
