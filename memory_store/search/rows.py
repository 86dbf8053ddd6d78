"""What a search reads of experiences: by namespace, by number, and what changed since."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import BigInteger, Select, bindparam, func, null, select

from governor.experience.experience import Experience
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.ids import NamespaceId, TenantId
from governor.retrieval.shelf import ShelfEntry
from memory_store.experiences.browsing import proven_all
from memory_store.experiences.rows import HEAD, Shape, read_through, texts_of
from memory_store.experiences.tables import (
    experience_log,
    experience_terms,
    experience_vectors,
    experiences,
)
from memory_store.search.columns import Traced
from memory_store.statement import Driver, Statement, Values

PAGE_ROWS = 2_000
# SQLite takes so many parameters in one statement at least, since 3.32 far more.
_AMONG_MAX = 900

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A namespace of a tenant."""

    tenant: TenantId
    namespace: NamespaceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """An experience as an index takes it: what it is filtered and what it is found by."""

    traced: Traced
    traits: int
    terms: str
    vector: bytes | None

    def entry(
        self, *, axes: int, terms: str | None = None, session: str | None = None
    ) -> ShelfEntry:
        """Return it as a shelf takes it; `terms` and `session` stand in for its own."""
        return ShelfEntry(
            number=self.traced.number,
            session=self.traced.session if session is None else session,
            actor=self.traced.actor,
            at_ms=self.traced.valid_from_ms,
            terms=self.terms if terms is None else terms,
            traits=self.traits,
            vector=vector_of(self.vector, axes=axes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What the log says was changed, up to which of its entries; `is_all` if nothing follows."""

    upto: int
    numbers: tuple[int, ...]
    is_all: bool


_log, _of = experience_log.c, experiences.c
_HEAD_NUMBER = Statement(select(func.max(_log.number)).where(_log.tenant == bindparam("tenant")))
_CHANGES = Statement(
    select(_log.number, _log.namespace, _log.experience_number)
    .where(
        _log.tenant == bindparam("tenant"),
        # The numbers of a log have no gaps, so this bounds how many they are.
        _log.number.between(bindparam("first"), bindparam("last")),
    )
    .order_by(_log.number)
)
_COUNT = Statement(
    select(func.count()).select_from(
        select(_of.number)
        .where(_of.namespace == bindparam("namespace"), _of.number > bindparam("after"))
        .limit(bindparam("most", type_=BigInteger))
        .offset(bindparam("skipped", type_=BigInteger))
        .subquery()
    )
)
_WHOLE = (
    _of.number,
    _of.kind,
    _of.lane,
    _of.standing,
    _of.actor,
    _of.session,
    _of.task_class,
    _of.tags,
    _of.learned_at_ms,
    _of.valid_from_ms,
    _of.valid_until_ms,
    _of.superseded_at_ms,
    _of.superseded_from_ms,
    _of.expires_at_ms,
    _of.traits,
    experience_vectors.c.vector,
    experience_terms.c.terms,
)
_TABLES = experiences.outerjoin(
    experience_vectors, experience_vectors.c.number == _of.number
).outerjoin(experience_terms, experience_terms.c.number == _of.number)


def _page(*columns: Any) -> Select[Any]:
    return (
        select(*columns)
        .where(
            _of.namespace == bindparam("namespace"),
            _of.tenant == bindparam("tenant"),
            _of.number > bindparam("after"),
        )
        .order_by(_of.number)
        .limit(bindparam("most", type_=BigInteger))
        .offset(bindparam("skipped", type_=BigInteger))
    )


_PAGE = Statement(_page(*_WHOLE).select_from(_TABLES))
# Without the words, of which those that hold many experiences in memory keep none.
_LEAN_PAGE = Statement(
    _page(*_WHOLE[:-1]).select_from(
        experiences.outerjoin(experience_vectors, experience_vectors.c.number == _of.number)
    )
)

# Those whose vectors are in an index of the database's hold none either.
_BARE_PAGE = Statement(_page(*_WHOLE[:-2], null()))


def head_number(driver: Driver, tenant: TenantId) -> int:
    """Return the number of the last entry of a tenant's log, 0 where there is none."""
    row = _HEAD_NUMBER.row(driver, {"tenant": tenant})
    return row[0] or 0


def changes(driver: Driver, place: Place, *, after: int, most: int) -> Changes:
    """Return which experiences of a namespace were changed behind an entry of the log."""
    asked: Values = {"tenant": place.tenant, "first": after + 1, "last": after + most}
    rows = _CHANGES.rows(driver, asked)
    numbers = dict.fromkeys(number for _, space, number in rows if space == place.namespace)
    return Changes(
        upto=rows[-1][0] if rows else after, numbers=tuple(numbers), is_all=len(rows) < most
    )


def count(driver: Driver, place: Place, *, most: int, after: int = 0) -> int:
    """Return how many experiences a namespace has behind a number, counted up to `most`."""
    asked: Values = {"namespace": place.namespace, "after": after, "most": most, "skipped": 0}
    found: int = _COUNT.row(driver, asked)[0]
    return found


def pages(
    driver: Driver, place: Place, *, with_terms: bool, with_vectors: bool
) -> Iterator[list[Whole]]:
    """Yield all experiences of a namespace in the order of their numbers, some at a time."""
    assert with_vectors or not with_terms, "nobody asks for terms alone"
    lean = _LEAN_PAGE if with_vectors else _BARE_PAGE
    statement, after = _PAGE if with_terms else lean, 0
    named: Values = {"tenant": place.tenant, "namespace": place.namespace}
    asked: Values = {**named, "most": PAGE_ROWS, "skipped": 0}
    while rows := read_through(driver, partial(statement.rows, driver, {**asked, "after": after})):
        yield _readable(rows)
        after = rows[-1][0]


def wholes(driver: Driver, place: Place, numbers: Sequence[int]) -> list[Whole]:
    """Return those of the experiences that are in the namespace, in the order of their numbers."""
    rows = _among(driver, _WHOLES, numbers)
    return _readable(
        row[2:]
        for row in sorted(rows, key=lambda row: int(row[2]))
        if (row[0], row[1]) == (place.tenant, place.namespace)
    )


def vectors(driver: Driver, numbers: Sequence[int], *, axes: int) -> dict[int, bytes]:
    """Return the vectors of those experiences that have one of so many axes."""
    found = _among(driver, _VECTORS, numbers)
    return {number: vector for number, vector in found if len(vector) == 2 * axes}


def terms(driver: Driver, numbers: Sequence[int]) -> list[str]:
    """Return the terms of those experiences that have any."""
    return [row[0] for row in _among(driver, _TERMS, numbers)]


def found(driver: Driver, tenant: TenantId, numbers: Sequence[int]) -> dict[int, Experience]:
    """Return those of the experiences that the tenant has, by number."""
    read = [row[1:] for row in _among(driver, _HEADS, numbers) if row[0] == tenant]
    there = proven_all(driver, tenant, read, skips_damaged=True)
    return {one.number: one for one in there}


def vector_of(stored: bytes | None, *, axes: int) -> npt.NDArray[np.float32] | None:
    """Return a stored vector, None if there is none of so many axes."""
    if stored is None or len(stored) != 2 * axes:
        return None
    return np.frombuffer(stored, dtype="<f2").astype(np.float32)


def matrix_of(stored: Sequence[bytes | None], *, axes: int) -> Matrix:
    """Return stored vectors as rows, zeros where there is none of so many axes."""
    nothing = bytes(2 * axes)
    whole = (one if one is not None and len(one) == 2 * axes else nothing for one in stored)
    flat = np.frombuffer(b"".join(whole), dtype="<f2").astype(np.float32)
    return flat.reshape(len(stored), axes)


def _among(driver: Driver, statement: str, numbers: Sequence[int]) -> list[Any]:
    """Return the rows of `statement` whose number is one of `numbers`, in no order."""
    wanted = [int(number) for number in numbers]
    if not isinstance(driver, sqlite3.Connection):
        return driver.execute(f"{statement} = ANY(%s)", (wanted,)).fetchall() if wanted else []
    rows: list[Any] = []
    for begin in range(0, len(wanted), _AMONG_MAX):
        some = wanted[begin : begin + _AMONG_MAX]
        asked = f"{statement} IN ({','.join('?' * len(some))})"
        rows += read_through(driver, partial(_all_of, driver, asked, some))
    return rows


def _all_of(driver: sqlite3.Connection, asked: str, numbers: Sequence[int]) -> list[Any]:
    return driver.execute(asked, numbers).fetchall()


def _readable(rows: Iterable[Sequence[Any]]) -> list[Whole]:
    """Return what is in rows, without those that cannot be read: these hide no other."""
    found = []
    for row in rows:
        try:
            found.append(_whole(row))
        except (KeyError, TypeError, ValueError, RecursionError):
            continue
    return found


def _whole(row: Sequence[Any]) -> Whole:
    if not _SHAPE.fits(row) or not 0 <= row[_AT_TRAITS] <= _TRAITS_MAX:
        message = "it holds what belongs in no such column"
        raise ValueError(message)
    (
        number, kind, lane, standing, actor, session, task_class, tags, learned_at_ms,
        valid_from_ms, valid_until_ms, superseded_at_ms, superseded_from_ms, expires_at_ms, traits,
        vector, *terms,
    ) = row  # fmt: skip
    ends = [end for end in (valid_until_ms, superseded_from_ms) if end is not None]
    return Whole(
        traced=Traced(
            number=number,
            kind=_KINDS[kind],
            lane=_LANES[lane],
            standing=_STANDINGS[standing],
            actor=actor,
            session=session or "",
            task_class=task_class or "",
            tags=texts_of(tags),
            learned_at_ms=learned_at_ms,
            valid_from_ms=valid_from_ms,
            valid_until_ms=min(ends, default=None),
            stated_until_ms=valid_until_ms,
            superseded_at_ms=superseded_at_ms,
            expires_at_ms=expires_at_ms,
        ),
        traits=traits,
        terms=(terms[0] or "") if terms else "",
        vector=None if vector is None else bytes(vector),
    )


_SHAPE = Shape(_WHOLE[:-2])
_AT_TRAITS = len(_WHOLE) - 3
_TRAITS_MAX = 2**31 - 1
_KINDS = {kind.value: kind for kind in ExperienceKind}
_LANES = {lane.value: lane for lane in TrustLane}
_STANDINGS = {standing.value: standing for standing in Standing}
_WHOLES = f"{select(_of.tenant, _of.namespace, *_WHOLE).select_from(_TABLES)} WHERE {_of.number}"
_VECTORS = f"{select(experience_vectors.c.number, experience_vectors.c.vector)} WHERE number"
_TERMS = f"{select(experience_terms.c.terms)} WHERE number"
_HEADS = f"{select(_of.tenant, *HEAD)} WHERE number"
