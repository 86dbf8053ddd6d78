"""What is read of experiences: by index, by neighbourhood, page by page, entry by entry."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    bindparam,
    literal,
    literal_column,
    select,
)

from governor.experience.chain import LogEntry
from governor.experience.experience import Experience
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.ids import ExperienceId, NamespaceId, PrincipalId, SessionId, TenantId
from memory_store.engine import driver_of
from memory_store.errors import ExperienceCorruptError, ExperienceNotFoundError
from memory_store.experiences.drafts import address_of
from memory_store.experiences.heads import entries_of, read_head
from memory_store.experiences.rows import (
    HEAD,
    Kept,
    bytes_of,
    experience_of,
    kept_of,
    proven,
    read_through,
    readable,
)
from memory_store.experiences.tables import (
    experience_blobs,
    experience_links,
    experience_log,
    experiences,
)
from memory_store.experiences.values import Relation
from memory_store.statement import Driver, Statement, Value

LISTED_MAX = 1_000

_rows = experiences.c
# SQLite would be handed a value for it that nobody named.
_NONE: ColumnElement[int] = literal_column("0")
# Before all that runs out.
_EVER = -1
_blobs = experience_blobs.c
_log = experience_log.c


def is_kept(now_ms: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the clause that leaves out what has run out by then."""
    return _rows.expires_at_ms.is_(None) | (_rows.expires_at_ms > now_ms)


_GET = Statement(
    select(*HEAD).where(
        _rows.experience_id == bindparam("experience_id"), _rows.tenant == bindparam("tenant")
    )
)
_INLINE = Statement(
    select(_rows.experience_id, _rows.address, _rows.content).where(
        _rows.experience_id == bindparam("experience_id"), _rows.tenant == bindparam("tenant")
    )
)
_CONTENT = Statement(
    select(*HEAD, _rows.content, _blobs.name)
    .outerjoin_from(
        experiences,
        experience_blobs,
        (_blobs.tenant == _rows.tenant) & (_blobs.address == _rows.address),
    )
    .where(_rows.experience_id == bindparam("experience_id"), _rows.tenant == bindparam("tenant"))
)
_BEFORE = Statement(
    select(*HEAD)
    .where(
        _rows.session == bindparam("session"),
        _rows.namespace == bindparam("namespace"),
        _rows.number < bindparam("number"),
        is_kept(bindparam("now_ms", type_=BigInteger)),
    )
    .order_by(_rows.number.desc())
    .limit(bindparam("most", type_=Integer))
    .offset(_NONE)
)
_AFTER = Statement(
    select(*HEAD)
    .where(
        _rows.session == bindparam("session"),
        _rows.namespace == bindparam("namespace"),
        _rows.number > bindparam("number"),
        is_kept(bindparam("now_ms", type_=BigInteger)),
    )
    .order_by(_rows.number)
    .limit(bindparam("most", type_=Integer))
    .offset(_NONE)
)
_HISTORY = Statement(
    select(experience_log)
    .where(_log.tenant == bindparam("tenant"), _log.experience_id == bindparam("experience_id"))
    .order_by(_log.number.desc())
    .limit(bindparam("most", type_=Integer))
    .offset(_NONE)
)
_LOG_SINCE = Statement(
    select(experience_log)
    .where(_log.tenant == bindparam("tenant"), _log.number > bindparam("number"))
    .order_by(_log.number)
    .limit(bindparam("most", type_=Integer))
    .offset(_NONE)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which of a tenant's experiences are listed; None is all."""

    tenant: TenantId
    namespace: NamespaceId | None = None
    kind: ExperienceKind | None = None
    lane: TrustLane | None = None
    standing: Standing | None = None
    writer: PrincipalId | None = None
    now_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptContent:
    """A row with its content, or the name of the blob that has it; neither: it is missing."""

    kept: Kept
    content: bytes | None
    blob: str | None


def get(
    driver: Driver, ids: Sequence[ExperienceId], tenant: TenantId, now_ms: int | None
) -> tuple[Experience, ...]:
    """Return the experiences of those ids, in their order, each in its proven lane.

    Raises:
        ExperienceNotFoundError: there is one that is not there for the tenant.
    """
    asked: list[dict[str, Value]] = [
        {"experience_id": one, "tenant": tenant} for one in dict.fromkeys(ids)
    ]
    rows = read_through(driver, lambda: _GET.rows_many(driver, asked))
    found = proven_all(driver, tenant, rows)
    by_id = {one.experience_id: one for one in found if not is_gone(one, now_ms)}
    if len(by_id) < len(asked):
        raise ExperienceNotFoundError
    return tuple(by_id[one] for one in ids)


def proven_all(
    driver: Driver,
    tenant: TenantId,
    rows: Iterable[Sequence[Any]],
    *,
    skips_damaged: bool = False,
) -> tuple[Experience, ...]:
    """Return the tenant's experiences in `rows`, each in its proven lane.

    Raises:
        ExperienceCorruptError: one cannot be read, and those are not skipped.
    """
    found = tuple(readable(rows) if skips_damaged else map(experience_of, rows))
    if not any(one.lane.instructs for one in found):
        return found
    head = read_head(driver, tenant)
    secret = b"" if head is None else head.secret
    return tuple(proven(one, secret) for one in found)


def content_of(driver: Driver, experience_id: ExperienceId, tenant: TenantId) -> KeptContent:
    """Return an experience and where its content is.

    Raises:
        ExperienceNotFoundError: it is not there for the tenant.
    """
    asked: dict[str, Value] = {"experience_id": experience_id, "tenant": tenant}
    row = read_through(driver, lambda: _CONTENT.row(driver, asked))
    if row is None:
        raise ExperienceNotFoundError
    *head, content, blob = row
    inline = None if content is None else bytes_of(content)
    return KeptContent(kept=kept_of(head), content=inline, blob=blob)


def of_session(
    connection: Connection,
    session: SessionId,
    tenant: TenantId,
    *,
    namespaces: Sequence[NamespaceId],
    after: int,
    most: int,
    now_ms: int | None,
) -> tuple[Experience, ...]:
    """Return what a session wrote in `namespaces` after that number, in order."""
    query = (
        select(*HEAD)
        .where(
            _rows.session == session,
            _rows.tenant == tenant,
            _rows.namespace.in_(namespaces),
            _rows.number > after,
            is_kept(literal(_EVER if now_ms is None else now_ms, BigInteger)),
        )
        .order_by(_rows.number)
        .limit(most)
    )
    return tuple(
        _all_readable(
            connection,
            tenant,
            lambda found: query.where(_rows.number > found),
            most=most,
        )
    )


def listed(connection: Connection, wanted: Wanted, *, before: int, most: int) -> list[Experience]:
    """Return the latest that are wanted of those before that number."""
    given = (
        (_rows.tenant, wanted.tenant),
        (_rows.namespace, wanted.namespace),
        (_rows.kind, wanted.kind and wanted.kind.value),
        (_rows.lane, wanted.lane and wanted.lane.value),
        (_rows.writer, wanted.writer),
    )
    query = (
        select(*HEAD)
        .where(*(column == value for column, value in given if value is not None))
        .where(
            _rows.number < before,
            is_kept(literal(_EVER if wanted.now_ms is None else wanted.now_ms, BigInteger)),
        )
        .order_by(_rows.number.desc())
        .limit(most)
    )
    if wanted.standing is not None:
        # Written out, or the index of what is quarantined would not be seen to fit.
        query = query.where(_rows.standing == literal_column(f"'{wanted.standing.value}'"))
    return _all_readable(
        connection,
        wanted.tenant,
        lambda found: query if not found else query.where(_rows.number < found),
        most=most,
    )


def _all_readable(
    connection: Connection, tenant: TenantId, behind: Callable[[int], Select[Any]], *, most: int
) -> list[Experience]:
    """Return as many as are asked for of those that can be read, `behind` a number or 0."""
    driver = driver_of(connection)
    found: list[Experience] = []
    last = 0
    while len(found) < most:
        query = behind(last)
        rows = read_through(driver, partial(_rows_of, connection, query))
        found += proven_all(driver, tenant, rows, skips_damaged=True)
        if len(rows) < most:
            break
        last = rows[-1].number
    return found[:most]


def _rows_of(connection: Connection, query: Select[Any]) -> Sequence[Row[Any]]:
    return connection.execute(query).all()


def contents_of(
    driver: Driver, ids: Sequence[ExperienceId], tenant: TenantId, bytes_max: int
) -> tuple[bytes | None, ...]:
    """Return the contents that stand in their rows, each intact; None of every other.

    Raises:
        ExperienceNotFoundError: there is one that is not there for the tenant.
    """
    asked: list[dict[str, Value]] = [
        {"experience_id": one, "tenant": tenant} for one in dict.fromkeys(ids)
    ]
    found = {row[0]: row[1:] for row in _INLINE.rows_many(driver, asked)}
    if len(found) < len(asked):
        raise ExperienceNotFoundError
    contents: list[bytes | None] = []
    for one in ids:
        address, content = found[one]
        if content is None or len(content) > bytes_max:
            contents.append(None)
            continue
        contents.append(intact(bytes_of(content), address))
    return tuple(contents)


def intact(content: bytes, address: str) -> bytes:
    """Return a content that is what was written.

    Raises:
        ExperienceCorruptError: it is not.
    """
    if address_of(content) != address:
        raise ExperienceCorruptError
    return content


def neighbours(
    driver: Driver, experience: Experience, *, before: int, after: int, now_ms: int | None
) -> tuple[Experience, ...]:
    """Return what its session wrote around an experience in the same namespace, in order."""
    if experience.session is None:
        return ()
    asked: dict[str, Value] = {
        "session": experience.session,
        "namespace": experience.namespace,
        "number": experience.number,
        "now_ms": _EVER if now_ms is None else now_ms,
    }
    earlier = read_through(driver, lambda: _BEFORE.rows(driver, {**asked, "most": before}))
    later = read_through(driver, lambda: _AFTER.rows(driver, {**asked, "most": after}))
    found = (*reversed(earlier), *later)
    return proven_all(driver, experience.tenant, found, skips_damaged=True)


def log_since(driver: Driver, tenant: TenantId, *, number: int, most: int) -> tuple[LogEntry, ...]:
    """Return what was logged after that number, in order."""
    asked: dict[str, Value] = {"tenant": tenant, "number": number, "most": most}
    return entries_of(_LOG_SINCE.rows(driver, asked))


def history(
    driver: Driver, tenant: TenantId, experience_id: ExperienceId, *, most: int
) -> tuple[LogEntry, ...]:
    """Return what was logged of one experience, the latest first; it looks through all the log."""
    asked: dict[str, Value] = {"tenant": tenant, "experience_id": experience_id, "most": most}
    return entries_of(_HISTORY.rows(driver, asked))


def made_of(
    connection: Connection, experience_id: ExperienceId, tenant: TenantId, *, most: int
) -> tuple[Experience, ...]:
    """Return what was made of an experience, in the order in which it was written."""
    links, one = experience_links.c, experiences.alias().c
    numbers = (
        select(links.source)
        .join(one.number.table, one.number == links.target)
        .where(
            one.tenant == tenant,
            one.experience_id == experience_id,
            links.relation == Relation.DERIVED_FROM.value,
        )
    )
    query = (
        select(*HEAD)
        .where(_rows.number.in_(numbers), _rows.tenant == tenant)
        .order_by(_rows.number)
        .limit(most)
    )
    driver = driver_of(connection)
    found = read_through(driver, lambda: _rows_of(connection, query))
    return proven_all(driver, tenant, found, skips_damaged=True)


def is_gone(experience: Experience, now_ms: int | None) -> bool:
    """Tell whether an experience has run out by `now_ms`."""
    expires = experience.expires_at_ms
    return now_ms is not None and expires is not None and expires <= now_ms
