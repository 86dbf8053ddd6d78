"""Searching experiences: what is held in memory finds them, the rows say whether they count.

The rows are read in the transaction that the search is of, so what was erased, revoked,
corrected or put in quarantine before it is not found, whatever is held in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import anyio
from sqlalchemy import Connection, Engine

from governor.experience.search import Found, Hit, MemoryTier, Search
from governor.retrieval.query import QueryParts, query_parts
from governor.retrieval.ranker import PLAIN_RANKER, Ranker
from governor.retrieval.vectors import StaticVectors
from memory_store.engine import driver_of
from memory_store.errors import SearchTooWideError
from memory_store.reader import Reader
from memory_store.search import nearness, rows, words
from memory_store.search.held import SHELVED_MAX
from memory_store.search.nearness_keeper import NearnessKeeper
from memory_store.search.rows import Place
from memory_store.search.scoring import Best, Wanted, best, nearest_in_meaning
from memory_store.search.shelves import AWAITED_MAX, Shelves
from memory_store.search.vector_index import VectorIndex
from memory_store.statement import Driver
from memory_store.writer import Writer

MOST_MAX = 200
NAMESPACES_MAX = 64
# How many more are counted behind those that are returned.
LEFT_OUT_MAX = 100
HELD_BYTES_MAX = 512 * 1024 * 1024
# How many readers searches may have at once: the others are for what calls wait for.
_SEARCHES_AT_ONCE = 2
NOTHING = Found(hits=(), left_out=0)
# Of more, sketches take longer to compare than the database's index to be asked.
SKETCHED_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBy:
    """What experiences are found by.

    Without `vectors` by words alone. What is held in memory takes about `held_bytes_max`, or as
    much as the one namespace that is being searched. Namespaces of more than `shelved_max`
    experiences are held as sketches, or found by the `index` of a database that has pgvector; left
    to choose, of more than `sketched_max`. Of more than `awaited_max` the first search does not
    keep others waiting.
    """

    vectors: StaticVectors | None = None
    ranker: Ranker = PLAIN_RANKER
    held_bytes_max: int = HELD_BYTES_MAX
    shelved_max: int = SHELVED_MAX
    index: VectorIndex = VectorIndex.AUTO
    sketched_max: int = SKETCHED_MAX
    awaited_max: int = AWAITED_MAX

    @property
    def indexed_from(self) -> int | None:
        """Return of how many on the database's index compares vectors; None: never."""
        if self.index is VectorIndex.SKETCH or self.vectors is None:
            return None
        is_chosen = self.index is VectorIndex.PGVECTOR
        return self.shelved_max if is_chosen else max(self.shelved_max, self.sketched_max)


WORDS_ALONE = FoundBy()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What was found, and the namespaces that would have to be read for all of it."""

    found: Found
    unheld: tuple[Place, ...] = ()


def keeper_of(indexing: Engine | None, finding: FoundBy) -> NearnessKeeper | None:
    """Return what fills an index of vectors, if one is asked for and `indexing` can."""
    if indexing is None or finding.vectors is None or finding.indexed_from is None:
        return None
    return NearnessKeeper(indexing, axes=finding.vectors.axes)


class ExperienceSearch:
    """Finds experiences."""

    def __init__(
        self,
        *,
        reader: Reader,
        writer: Writer,
        finding: FoundBy,
        keeper: NearnessKeeper | None = None,
    ) -> None:
        """Take what reads and writes the rows, what to find them by, and what fills an index."""
        self._reader = reader
        self._writer = writer
        self._finding = finding
        self._slots = anyio.CapacityLimiter(_SEARCHES_AT_ONCE)
        # One namespace at a time is read to be held, beside the searches.
        self._loading = anyio.Lock()
        axes = 0 if finding.vectors is None else finding.vectors.axes
        self._keeper = keeper
        self._shelves = Shelves(
            axes=axes,
            bytes_max=finding.held_bytes_max,
            shelved_max=finding.shelved_max,
            indexed_from=None if keeper is None else finding.indexed_from,
            awaited_max=finding.awaited_max,
            keep_index=None if keeper is None else keeper.keep,
        )

    @property
    def held_bytes(self) -> int:
        """Return about how much memory is taken by what is held."""
        return self._shelves.size_bytes

    @property
    def uses_pgvector(self) -> bool:
        """Tell whether large namespaces are found by an index of pgvector's."""
        return self._keeper is not None

    async def search(self, search: Search) -> Found:
        """Return what was found, the best first; a question without any words finds nothing.

        Raises:
            SearchTooWideError: too many namespaces are to be searched at once.
            StoreUnavailableError: the database cannot be read.
        """
        return await self._run(search, self._searched)

    async def nearest(self, search: Search) -> Found:
        """Return what is nearest to the text in meaning alone; without vectors nothing is.

        Raises:
            SearchTooWideError: too many namespaces are to be searched at once.
            StoreUnavailableError: the database cannot be read.
        """
        return await self._run(search, self._nearest)

    async def rebuild(self) -> None:
        """Make everything that is derived for searches anew of what is stored.

        Raises:
            StoreUnavailableError: the database cannot be written.
        """
        await self._writer.run(words.rebuild)
        await self._writer.run(partial(nearness.empty, axes=self._shelves.axes))
        self._shelves.clear()

    async def _run(self, search: Search, work: Callable[[Search, Connection], _Answer]) -> Found:
        if len(set(search.namespaces)) > NAMESPACES_MAX:
            raise SearchTooWideError(asked=len(search.namespaces), most=NAMESPACES_MAX)
        if not search.namespaces:
            return NOTHING
        bounded = replace(search, most=max(1, min(search.most, MOST_MAX)))
        answer = await self._answered(bounded, work)
        # Whoever comes first waits for what is read; the others have what the database finds.
        if answer.unheld and not self._loading.locked():
            async with self._loading:
                for place in answer.unheld:
                    await self._reader.run(partial(self._load, place))
            answer = await self._answered(bounded, work)
        return answer.found

    async def _answered(
        self, search: Search, work: Callable[[Search, Connection], _Answer]
    ) -> _Answer:
        async with self._slots:
            return await self._reader.run(partial(work, search))

    def _load(self, place: Place, connection: Connection) -> None:
        self._shelves.load(place, driver_of(connection))

    def _searched(self, search: Search, connection: Connection) -> _Answer:
        uses_vectors = search.use_vectors and search.tier is not MemoryTier.LOW
        parts = query_parts(search.text, self._finding.vectors if uses_vectors else None)
        if not parts.terms and not _says_something(parts):
            return _Answer(found=NOTHING)
        driver = driver_of(connection)
        question = _question(search, parts)
        found = best(self._shelves, driver, question, ranker=self._finding.ranker)
        return _Answer(found=_found(driver, search, found), unheld=found.unheld)

    def _nearest(self, search: Search, connection: Connection) -> _Answer:
        parts = replace(query_parts(search.text, self._finding.vectors), terms=())
        if not _says_something(parts):
            return _Answer(found=NOTHING)
        driver = driver_of(connection)
        found = nearest_in_meaning(self._shelves, driver, _question(search, parts))
        return _Answer(found=_found(driver, search, found), unheld=found.unheld)


def _question(search: Search, parts: QueryParts) -> Wanted:
    places = dict.fromkeys(
        Place(tenant=search.tenant, namespace=namespace) for namespace in search.namespaces
    )
    return Wanted(
        parts=parts,
        places=tuple(places),
        filters=search.filters,
        tier=search.tier,
        most=search.most,
        spare=LEFT_OUT_MAX,
        now_ms=search.now_ms,
    )


def _says_something(parts: QueryParts) -> bool:
    return parts.vector is not None and bool(parts.vector.any())


def _found(driver: Driver, search: Search, found: Best) -> Found:
    """Return what the rows say may be found of what was."""
    hits: list[Hit] = []
    waiting = found.scored
    while waiting and len(hits) < search.most:
        some, waiting = waiting[: search.most], waiting[search.most :]
        there = rows.found(driver, search.tenant, [number for number, _ in some])
        for number, score in some:
            experience = there.get(number)
            if experience is not None and search.finds(experience):
                hits.append(Hit(experience=experience, score=score))
    kept = tuple(hits[: search.most])
    more = len(hits) - len(kept) + len(waiting) + found.more
    return Found(hits=kept, left_out=min(more, LEFT_OUT_MAX))
