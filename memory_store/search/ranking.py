"""Candidates out of several namespaces, or of one too large for a shelf, put in order together."""

from collections.abc import Sequence
from dataclasses import dataclass

from governor.retrieval.postings import Background
from governor.retrieval.query import QueryParts
from governor.retrieval.ranker import Ranker
from governor.retrieval.shelf import Shelf, ShelfEntry
from memory_store.search import rows
from memory_store.search.columns import Mask, Places
from memory_store.search.held import Held
from memory_store.search.rows import Place, Whole
from memory_store.search.spread import together
from memory_store.statement import Driver

# How far around a candidate its session is looked at.
_STEPS = 2
_OTHER = "-"

Scored = list[tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Experiences of one namespace that may be what is asked for, their neighbours included."""

    place: Place
    numbers: tuple[int, ...]
    background: Background
    more: int
    """How many others may be as well."""


def candidates_of(
    held: Held, places: Places, *, allowed: Mask, background: Background, more: int
) -> Candidates:
    """Return candidates with those around them in their sessions, as far as they are allowed."""
    around = held.columns.with_neighbours(places, steps=_STEPS)
    around = around[allowed[around]]
    return Candidates(
        place=held.place,
        numbers=tuple(held.columns.numbers[around].tolist()),
        background=background,
        more=more,
    )


def ranked(
    driver: Driver,
    parts: QueryParts,
    found: Sequence[Candidates],
    *,
    axes: int,
    most: int,
    ranker: Ranker,
) -> Scored:
    """Return at most `most` of all candidates as number and score, the best first."""
    background = together([one.background for one in found])
    shelf = Shelf(axes=axes, background=background)
    wholes: list[tuple[int, Whole]] = []
    for at, one in enumerate(found):
        wholes += [(at, whole) for whole in rows.wholes(driver, one.place, one.numbers)]
    wholes.sort(key=lambda pair: pair[1].traced.number)
    asked = frozenset(parts.terms)
    shelf.add([_entry(whole, at, axes=axes, asked=asked) for at, whole in wholes])
    return shelf.search(parts, most=most, ranker=ranker)


def _entry(whole: Whole, at: int, *, axes: int, asked: frozenset[str]) -> ShelfEntry:
    """Return an experience of the namespace at that place in the question, for this question."""
    session = whole.traced.session
    return whole.entry(
        axes=axes,
        # Only what was asked for is looked up; of the others there are as many as there were.
        terms=" ".join([term if term in asked else _OTHER for term in whole.terms.split()]),
        # Sessions of two namespaces are two sessions, whatever they are called.
        session=f"{at} {session}" if session else "",
    )
