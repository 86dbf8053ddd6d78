"""Pages of a tenant's log with the rows that they are about, read whatever is damaged in them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, literal_column, select

from governor.experience.chain import LogEntry, LogEvent
from governor.ids import ExperienceId, TenantId
from memory_store.engine import driver_of
from memory_store.errors import ExperienceCorruptError
from memory_store.experiences.heads import Head, entries_of, read_head
from memory_store.experiences.rows import HEAD, Kept, Shape, bytes_of, kept_of, undecoded
from memory_store.experiences.tables import (
    experience_blobs,
    experience_links,
    experience_log,
    experience_namespaces,
    experience_terms,
    experience_vectors,
    experiences,
)
from memory_store.statement import Driver, Statement, Value

ENTRIES_AT_ONCE = 500

_rows, _log, _links = experiences.c, experience_log.c, experience_links.c
_NUMBER_MAX = literal_column(str(2**63 - 1), BigInteger)
# Text stands behind every number, wherever it stands in place of one.
_ENTRIES = Statement(
    select(experience_log)
    .where(
        _log.tenant == bindparam("tenant"),
        _log.number > bindparam("number"),
        _log.number <= _NUMBER_MAX,
    )
    .order_by(_log.number)
    .limit(bindparam("most", type_=BigInteger))
    .offset(literal_column("0", BigInteger))
)
_WORDS = (experience_terms.c.namespace, experience_terms.c.terms, experience_terms.c.seal)
_WHOLE = Statement(
    select(
        *HEAD,
        _rows.content,
        experience_blobs.c.name,
        experience_blobs.c.size_bytes,
        *_WORDS,
        experience_vectors.c.vector,
        experience_namespaces.c.namespace,
    )
    .outerjoin_from(
        experiences,
        experience_blobs,
        (experience_blobs.c.tenant == _rows.tenant) & (experience_blobs.c.address == _rows.address),
    )
    .outerjoin(experience_terms, experience_terms.c.number == _rows.number)
    .outerjoin(experience_vectors, experience_vectors.c.number == _rows.number)
    .outerjoin(
        experience_namespaces,
        (experience_namespaces.c.namespace == _rows.namespace)
        & (experience_namespaces.c.tenant == _rows.tenant),
    )
    .where(_rows.number == bindparam("number"), _rows.tenant == bindparam("tenant"))
)
_TIES = Statement(
    select(_links.source, _links.relation, _links.target, _rows.experience_id)
    .join_from(experience_links, experiences, _rows.number == _links.target)
    .where(_links.source == bindparam("number"))
)
_NAMED = Statement(
    select(
        _rows.experience_id, _rows.number, _rows.namespace, _rows.valid_from_ms, _rows.supersedes
    ).where(_rows.experience_id == bindparam("experience_id"), _rows.tenant == bindparam("tenant"))
)
_LOGGED = Shape(tuple(experience_log.columns))
_AT_FROM = [column.name for column in HEAD].index("superseded_from_ms")

Unfound = Callable[[Driver, Sequence["Words"]], frozenset[int]]
"""Returns the numbers of those whose words the index of words does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What an experience is found by where."""

    number: int
    namespace: str
    terms: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A row with all that hangs on it; None is what is not there.

    The content stands in the row, or in a blob of that name and size.
    """

    kept: Kept
    superseded_from_ms: int | None
    content: bytes | None
    blob: str | None
    blob_bytes: int | None
    words: Words | None
    seal: str | None
    vector: bytes | None
    has_space: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An experience that another one names."""

    number: int
    namespace: str
    valid_from_ms: int
    supersedes: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """An entry of the log that cannot be read, but for where it stands."""

    number: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPage:
    """Entries of the log and the rows that they are about, as of one instant.

    `ties` are the relations of each, to what number and id; `named` is what they name by id;
    `unfound` are those that the index of words does not have.
    """

    head: Head | None
    is_head_damaged: bool
    entries: tuple[LogEntry | Damaged, ...]
    found: Mapping[int, Whole]
    unreadable: frozenset[int]
    ties: Mapping[int, frozenset[tuple[str, int, str]]]
    named: Mapping[str, Named]
    unfound: frozenset[int]


def page_of(
    connection: Connection, *, tenant: TenantId, number: int, unfound: Unfound
) -> CheckPage:
    """Return the page of the log behind that number, empty at its end."""
    driver = driver_of(connection)
    with undecoded(driver):
        asked: dict[str, Value] = {"tenant": tenant, "number": number, "most": ENTRIES_AT_ONCE}
        entries = tuple(_entry_of(row) for row in _ENTRIES.rows(driver, asked))
        there = [one for one in entries if isinstance(one, LogEntry)]
        numbers = {one.experience_number for one in there if one.event is not LogEvent.MARKED}
        found, unreadable = _wholes(driver, tenant, sorted(numbers))
        words = [one.words for one in found.values() if one.words is not None]
        head, is_head_damaged = _head_of(driver, tenant)
        return CheckPage(
            head=head,
            is_head_damaged=is_head_damaged,
            entries=entries,
            found=found,
            unreadable=unreadable,
            ties=_ties_of(driver, found),
            named=_named_by(driver, tenant, found.values()),
            unfound=unfound(driver, words),
        )


def _entry_of(row: Sequence[Any]) -> LogEntry | Damaged:
    if _LOGGED.fits(row):
        try:
            (entry,) = entries_of([row])
        except ValueError:
            """It says what no entry says."""
        else:
            return entry
    named = dict(zip(experience_log.columns.keys(), row, strict=True))
    return Damaged(number=named["number"], hash=str(named["hash"]))


def _head_of(driver: Driver, tenant: TenantId) -> tuple[Head | None, bool]:
    try:
        head = read_head(driver, tenant)
    except (TypeError, ValueError):
        return None, True
    is_whole = head is None or (type(head.number), type(head.hash)) == (int, str)
    return head, not is_whole


def _wholes(
    driver: Driver, tenant: TenantId, numbers: Sequence[int]
) -> tuple[dict[int, Whole], frozenset[int]]:
    asked: list[dict[str, Value]] = [{"number": one, "tenant": tenant} for one in numbers]
    found: dict[int, Whole] = {}
    unreadable = set()
    for row in _WHOLE.rows_many(driver, asked):
        try:
            found[row[0]] = _whole_of(row)
        except ExperienceCorruptError:
            unreadable.add(row[0])
    return found, frozenset(unreadable)


def _whole_of(row: Sequence[Any]) -> Whole:
    head, hangs_on = row[: len(HEAD)], row[len(HEAD) :]
    content, blob, blob_bytes, namespace, terms, seal, vector, space = hangs_on
    kept = kept_of(head)
    is_text = isinstance(namespace, str) and isinstance(terms, str) and isinstance(seal, str)
    words = Words(number=kept.experience.number, namespace=namespace, terms=terms)
    return Whole(
        kept=kept,
        superseded_from_ms=head[_AT_FROM],
        content=None if content is None else bytes_of(content),
        blob=blob if isinstance(blob, str) else None,
        blob_bytes=blob_bytes,
        words=words if is_text else None,
        seal=seal if is_text else None,
        vector=None if vector is None else bytes_of(vector),
        has_space=space is not None,
    )


def _ties_of(driver: Driver, numbers: Iterable[int]) -> dict[int, frozenset[tuple[str, int, str]]]:
    asked: list[dict[str, Value]] = [{"number": one} for one in numbers]
    ties: dict[int, set[tuple[str, int, str]]] = {}
    for source, relation, target, experience_id in _TIES.rows_many(driver, asked):
        ties.setdefault(source, set()).add((relation, target, experience_id))
    return {source: frozenset(those) for source, those in ties.items()}


def _named_by(driver: Driver, tenant: TenantId, found: Iterable[Whole]) -> dict[str, Named]:
    ids: dict[ExperienceId, None] = {}
    for one in found:
        experience = one.kept.experience
        ids.update(dict.fromkeys(experience.provenance.derived_from))
        others = (experience.supersedes, experience.superseded_by)
        ids.update((other, None) for other in others if other is not None)
    asked: list[dict[str, Value]] = [{"experience_id": one, "tenant": tenant} for one in ids]
    return {
        experience_id: Named(
            number=number,
            namespace=namespace,
            valid_from_ms=valid_from_ms,
            supersedes=supersedes,
        )
        for experience_id, number, namespace, valid_from_ms, supersedes in _NAMED.rows_many(
            driver, asked
        )
    }
