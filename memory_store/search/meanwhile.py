"""What the database itself finds in a large namespace while nothing of it is held in memory.

Its indexes of words, and of vectors where it has one, name more than may be seen; what may not
is sorted out of those that are read. So a question with narrow filters may find fewer than there
are, until the namespace is held.
"""

from dataclasses import dataclass

import numpy as np
from sqlalchemy import bindparam, func, select

from governor.experience.search import Filters
from governor.retrieval.postings import Background
from governor.retrieval.query import QueryParts
from memory_store.experiences.tables import experience_totals
from memory_store.search import nearness, rows, words
from memory_store.search.columns import Columns, Numbers
from memory_store.search.ranking import Candidates, Scored
from memory_store.search.rows import Place, Whole
from memory_store.statement import Driver, Statement

TERMS_MAX = 32
# Words that more hold say little.
HOLDERS_MAX = 2_000
WORDED_MAX = 400
NEAR_MAX = 400

_NO_NUMBERS: Numbers = np.zeros(0, dtype=np.int64)
_of = experience_totals.c
_TOTAL = Statement(
    select(func.sum(_of["items"])).where(
        _of.tenant == bindparam("tenant"), _of.namespace == bindparam("namespace")
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unheld:
    """A namespace that is not held in memory, and what may be seen of it."""

    place: Place
    axes: int
    filters: Filters
    now_ms: int


def found_meanwhile(unheld: Unheld, driver: Driver, parts: QueryParts) -> Candidates:
    """Return those that share the rarest words with a question or are near it in an index."""
    place, terms = unheld.place, parts.terms[:TERMS_MAX]
    total = _total(driver, place)
    held_by = {term: words.holders(driver, place, term, most=HOLDERS_MAX) for term in terms}
    worded = np.unique(np.concatenate([_NO_NUMBERS, *held_by.values()]))
    worths = np.zeros(worded.size, dtype=np.float32)
    for numbers in held_by.values():
        worths[np.searchsorted(worded, numbers)] += np.log1p(total / max(numbers.size, 1))
    if worded.size > WORDED_MAX:
        worded = worded[np.argpartition(-worths, WORDED_MAX)[:WORDED_MAX]]
    seen = _seen(unheld, driver, np.union1d(worded, _near(unheld, driver, parts)))
    lengths = [len(whole.terms.split()) for whole in seen]
    return Candidates(
        place=place,
        numbers=tuple(whole.traced.number for whole in seen),
        background=Background(
            total=total,
            mean_length=sum(lengths) / max(len(lengths), 1),
            holders={term: numbers.size for term, numbers in held_by.items()},
        ),
        more=0,
    )


def nearest_meanwhile(unheld: Unheld, driver: Driver, parts: QueryParts) -> Scored:
    """Return the nearest in meaning; without an index in the database nothing is."""
    seen = _seen(unheld, driver, _near(unheld, driver, parts))
    if not seen or parts.vector is None:
        return []
    matrix = rows.matrix_of([whole.vector for whole in seen], axes=unheld.axes)
    cosines = np.einsum("ij,j->i", matrix, parts.vector)
    numbers = [whole.traced.number for whole in seen]
    return list(zip(numbers, cosines.tolist(), strict=True))


def _total(driver: Driver, place: Place) -> int:
    (items,) = _TOTAL.row(driver, {"tenant": place.tenant, "namespace": place.namespace})
    return int(items or 0)


def _near(unheld: Unheld, driver: Driver, parts: QueryParts) -> Numbers:
    namespace = unheld.place.namespace
    if parts.vector is None or nearness.upto(driver, namespace, axes=unheld.axes) is None:
        return _NO_NUMBERS
    return nearness.nearest(
        driver, namespace, parts.vector, most=NEAR_MAX, among=_total(driver, unheld.place)
    )


def _seen(unheld: Unheld, driver: Driver, numbers: Numbers) -> list[Whole]:
    """Return those that may be seen."""
    wholes = rows.wholes(driver, unheld.place, numbers.tolist())
    columns = Columns()
    columns.add([whole.traced for whole in wholes])
    seen = columns.mask(unheld.filters, now_ms=unheld.now_ms).tolist()
    return [whole for whole, is_seen in zip(wholes, seen, strict=True) if is_seen]
