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
from memory_store.search.meanwhile import Unheld, found_meanwhile, nearest_meanwhile
from memory_store.search.ranking import Candidates, Scored, candidates_of, ranked
from memory_store.search.rows import Place
from memory_store.search.shelves import Shelves
from memory_store.statement import Driver

_CANDIDATES = {MemoryTier.LOW: 32, MemoryTier.MID: 48, MemoryTier.HIGH: 192}
_NO_PLACES = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked of namespaces: `most` are wanted, and up to `spare` to count behind them."""

    parts: QueryParts
    places: Sequence[Place]
    filters: Filters
    tier: MemoryTier
    most: int
    spare: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """What was found, the best first, and how many more may do."""

    scored: Scored
    more: int = 0
    unheld: tuple[Place, ...] = ()
    """Namespaces of which no more was found than the database finds by itself."""


def best(shelves: Shelves, driver: Driver, question: Wanted, *, ranker: Ranker) -> Best:
    """Return the best by words and meaning, some spare ones behind them."""
    parts, most = question.parts, question.most + question.spare
    found: list[Candidates] = []
    unheld: list[Place] = []
    places = _with_something(shelves, driver, question)
    for place in places:
        with shelves.at(place, driver) as held:
            if held is None:
                unheld.append(place)
                found.append(found_meanwhile(_unheld(place, shelves, question), driver, parts))
                continue
            allowed = held.columns.mask(question.filters, now_ms=question.now_ms)
            if held.shelf is not None and len(places) == 1:
                scored = held.shelf.search(parts, allowed=allowed, most=most, ranker=ranker)
                return Best(scored=scored)
            found.append(_candidates(held, driver, question, allowed=allowed, ranker=ranker))
    scored = ranked(driver, parts, found, axes=shelves.axes, most=most, ranker=ranker)
    return Best(scored=scored, more=sum(one.more for one in found), unheld=tuple(unheld))


def _with_something(shelves: Shelves, driver: Driver, question: Wanted) -> Sequence[Place]:
    """Return the namespaces that are not known to have nothing that may be found.

    Most often that leaves one, which is then in the order that its own shelf has already.
    """
    if len(question.places) == 1:
        return question.places
    found = []
    for place in question.places:
        with shelves.at(place, driver) as held:
            # Of larger ones nearly always something may be found, and it takes long to look.
            if (
                held is None
                or held.shelf is None
                or held.columns.mask(question.filters, now_ms=question.now_ms).any()
            ):
                found.append(place)
    return found


def nearest_in_meaning(shelves: Shelves, driver: Driver, question: Wanted) -> Best:
    """Return the nearest by their vectors alone, some spare ones behind them."""
    found: Scored = []
    most, vector = question.most + question.spare, question.parts.vector
    assert vector is not None, "the caller looked"
    unheld: list[Place] = []
    for place in question.places:
        with shelves.at(place, driver) as held:
            if held is None:
                unheld.append(place)
                there = _unheld(place, shelves, question)
                found += nearest_meanwhile(there, driver, question.parts)
                continue
            allowed = held.columns.mask(question.filters, now_ms=question.now_ms)
            if held.shelf is not None:
                found += held.shelf.nearest(vector, allowed=allowed, most=most)
                continue
            near = nearest(held, driver, question.parts, allowed=allowed, also=_NO_PLACES)
            numbers = held.columns.numbers[near.places]
            found += zip(numbers.tolist(), near.cosines.tolist(), strict=True)
    found.sort(key=lambda pair: -pair[1])
    return Best(scored=found[:most], unheld=tuple(unheld))


def _unheld(place: Place, shelves: Shelves, question: Wanted) -> Unheld:
    return Unheld(place=place, axes=shelves.axes, filters=question.filters, now_ms=question.now_ms)


def _candidates(
    held: Held, driver: Driver, question: Wanted, *, allowed: Mask, ranker: Ranker
) -> Candidates:
    # All that are wanted may be in one namespace.
    most = max(_CANDIDATES[question.tier] // len(question.places), question.most)
    parts = question.parts
    if held.shelf is None:
        background = held.spread.among(parts.terms, total=len(held.columns))
        places, more = close_to(held, driver, parts, allowed=allowed, most=most)
    else:
        background = held.shelf.background(parts.terms)
        upto = most + question.spare
        scored = held.shelf.search(parts, allowed=allowed, most=upto, ranker=ranker)
        numbers = np.array([number for number, _ in scored[:most]], dtype=np.int64)
        places, more = held.columns.places_of(numbers), max(0, len(scored) - most)
    return candidates_of(held, places, allowed=allowed, background=background, more=more)
