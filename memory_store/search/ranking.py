"""Candidates out of several namespaces, or of one too large for a shelf, put in order together."""

from collections.abc import Sequence
from dataclasses import dataclass

from governor.retrieval.postings import Background
from governor.retrieval.query import QueryParts
from governor.retrieval.ranker import Ranker
from governor.retrieval.shelf import Shelf
from memory_store.search import rows
from memory_store.search.columns import Mask, Places
from memory_store.search.held import Held
from memory_store.search.rows import Place, Whole
from memory_store.search.spread import together
from memory_store.statement import Driver

# How far around a candidate its session is looked at.
_STEPS = 2

Scored = list[tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Experiences of one namespace that may be what is asked for, their neighbours included."""

    place: Place
    numbers: tuple[int, ...]
    background: Background


def candidates_of(
    held: Held, places: Places, *, allowed: Mask, background: Background
) -> Candidates:
    """Return candidates with those around them in their sessions, as far as they are allowed."""
    around = held.columns.with_neighbours(places, steps=_STEPS)
    around = around[allowed[around]]
    return Candidates(
        place=held.place,
        numbers=tuple(held.columns.numbers[around].tolist()),
        background=background,
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
    # Sessions of two namespaces are two sessions, whatever they are called.
    shelf.add(
        [
            whole.entry(
                axes=axes,
                session=f"{at} {whole.traced.session}" if whole.traced.session else "",
            )
            for at, whole in sorted(wholes, key=lambda pair: pair[1].traced.number)
        ]
    )
    return shelf.search(parts, most=most, ranker=ranker)
