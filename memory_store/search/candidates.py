"""The few experiences of a namespace too large for a shelf that a question may be about."""

from dataclasses import dataclass

import numpy as np

from governor.retrieval.postings import Background
from governor.retrieval.query import QueryParts
from governor.retrieval.vectors import Vector
from memory_store.search import nearness, rows, words
from memory_store.search.columns import Floats, Mask, Places
from memory_store.search.held import Held
from memory_store.statement import Driver

# How many holders of a question's words are looked at; the words that more hold say least.
HOLDERS_MAX = 20_000
TERMS_MAX = 32
# How many that share words with the question are compared with it in meaning.
WORDED_MAX = 200
# How many vectors are compared in full: so many, and one more for each so many experiences.
NEAREST_MIN, NEAREST_SHARE = 400, 1_000
# Where no more than these may be seen, the database compares each of them.
COMPARED_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Places that may be meant, and how near in meaning each is; 0 where nobody compared."""

    places: Places
    cosines: Floats


def close_to(
    held: Held, driver: Driver, parts: QueryParts, *, allowed: Mask, most: int
) -> tuple[Places, int]:
    """Return `most` of the allowed places by words and meaning, and how many more may do."""
    worths = _worths(held, driver, parts, allowed=allowed)
    (worded,) = np.nonzero(worths)
    if worded.size > WORDED_MAX:
        worded = worded[np.argpartition(-worths[worded], WORDED_MAX)[:WORDED_MAX]]
    near = nearest(held, driver, parts, allowed=allowed, also=worded)
    if near.places.size <= most:
        return near.places, 0
    worth = worths[near.places]
    both = near.cosines + worth / max(float(worth.max(initial=0)), 1e-9)
    return near.places[np.argpartition(-both, most)[:most]], near.places.size - most


def nearest(held: Held, driver: Driver, parts: QueryParts, *, allowed: Mask, also: Places) -> Close:
    """Return the nearest in meaning, and how near `also` are, by their vectors as stored."""
    places = also
    if parts.vector is None or not held.axes:
        return Close(places=places, cosines=np.zeros(places.size, np.float32))
    most = NEAREST_MIN + len(held.columns) // NEAREST_SHARE
    if held.sketches is not None:
        near = held.sketches.nearest(parts.vector, most=most, allowed=allowed)
        places = np.union1d(near, also).astype(np.intp)
    elif held.indexed_upto is not None:
        near = _by_index(
            held, driver, parts.vector, allowed=allowed, upto=held.indexed_upto, most=most
        )
        places = np.union1d(near, also).astype(np.intp)
    numbers = held.columns.numbers[places].tolist()
    stored = rows.vectors(driver, numbers, axes=held.axes)
    matrix = rows.matrix_of([stored.get(number) for number in numbers], axes=held.axes)
    return Close(places=places, cosines=np.einsum("ij,j->i", matrix, parts.vector))


def _by_index(
    held: Held, driver: Driver, vector: Vector, *, allowed: Mask, upto: int, most: int
) -> Places:
    """Return the nearest that the database's index finds, and all that it does not have yet."""
    numbers = held.columns.numbers
    tail = int(np.searchsorted(numbers, upto, side="right"))
    (seen,) = np.nonzero(allowed[:tail])
    if seen.size <= COMPARED_MAX:
        found = nearness.nearest_among(driver, numbers[seen], vector, most=most)
    else:
        # As many more as there are that may not be seen.
        wanted = min(most, nearness.BREADTH_MAX) * tail // seen.size
        found = nearness.nearest(
            driver,
            held.place.namespace,
            vector,
            most=min(wanted, nearness.FETCHED_MAX),
            among=tail,
        )
    places = held.columns.places_of(found)
    (behind,) = np.nonzero(allowed[tail:])
    return np.concatenate([places[allowed[places]], tail + behind])


def _worths(held: Held, driver: Driver, parts: QueryParts, *, allowed: Mask) -> Floats:
    """Return what the words that each experience shares with the question are worth."""
    total = len(held.columns)
    found = np.zeros(total, dtype=np.float32)
    spread = held.spread.among(parts.terms, total=total)
    for term in _telling(spread, parts.terms):
        numbers = words.holders(driver, held.place, term, most=HOLDERS_MAX)
        places = held.columns.places_of(numbers)
        held_by = max(places.size, 1)
        found[places] += np.log1p((total - held_by + 0.5) / (held_by + 0.5))
    found[~allowed] = 0
    return found


def _telling(spread: Background, terms: tuple[str, ...]) -> list[str]:
    """Return the rarest terms, as many as bounds allow, one at least."""
    chosen: list[str] = []
    upto = 0
    for term in sorted(terms, key=lambda term: spread.holders[term]):
        upto += spread.holders[term]
        if chosen and (upto > HOLDERS_MAX or len(chosen) == TERMS_MAX):
            break
        chosen.append(term)
    return chosen
