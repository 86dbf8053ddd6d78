"""What is read of experiences: by index, by neighbourhood, page by page, entry by entry."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Integer, bindparam, literal_column, select

from governor.experience.chain import LogEntry
from governor.experience.experience import Experience
from governor.ids import ExperienceId, SessionId, TenantId
from memory_store.errors import ExperienceNotFoundError
from memory_store.experiences.heads import entries_of
from memory_store.experiences.rows import HEAD, Kept, experience_of, kept_of
from memory_store.experiences.tables import experience_blobs, experience_log, experiences
from memory_store.statement import Driver, Statement, Value

LISTED_MAX = 1_000

_rows = experiences.c
# SQLite would be handed a value for it that nobody named.
_NONE: ColumnElement[int] = literal_column("0")
_blobs = experience_blobs.c
_log = experience_log.c

_GET = Statement(
    select(*HEAD).where(
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
_SESSION = Statement(
    select(*HEAD)
    .where(
        _rows.session == bindparam("session"),
        _rows.tenant == bindparam("tenant"),
        _rows.number > bindparam("after"),
    )
    .order_by(_rows.number)
    .limit(bindparam("most", type_=Integer))
    .offset(_NONE)
)
_BEFORE = Statement(
    select(*HEAD)
    .where(
        _rows.session == bindparam("session"),
        _rows.namespace == bindparam("namespace"),
        _rows.number < bindparam("number"),
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
    )
    .order_by(_rows.number)
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
class KeptContent:
    """A row with its content, or the name of the blob that has it; neither: it is missing."""

    kept: Kept
    content: bytes | None
    blob: str | None


def get(
    driver: Driver, ids: Sequence[ExperienceId], tenant: TenantId, now_ms: int | None
) -> tuple[Experience, ...]:
    """Return the experiences of those ids, in their order.

    Raises:
        ExperienceNotFoundError: there is one that is not there for the tenant.
    """
    asked = [{"experience_id": one, "tenant": tenant} for one in dict.fromkeys(ids)]
    found = (experience_of(row) for row in _GET.rows_many(driver, asked))
    by_id = {one.experience_id: one for one in found if not is_gone(one, now_ms)}
    if len(by_id) < len(asked):
        raise ExperienceNotFoundError
    return tuple(by_id[one] for one in ids)


def content_of(driver: Driver, experience_id: ExperienceId, tenant: TenantId) -> KeptContent:
    """Return an experience and where its content is.

    Raises:
        ExperienceNotFoundError: it is not there for the tenant.
    """
    row = _CONTENT.row(driver, {"experience_id": experience_id, "tenant": tenant})
    if row is None:
        raise ExperienceNotFoundError
    *head, content, blob = row
    inline = None if content is None else bytes(content)
    return KeptContent(kept=kept_of(head), content=inline, blob=blob)


def of_session(
    driver: Driver, session: SessionId, tenant: TenantId, *, after: int, most: int
) -> tuple[Experience, ...]:
    """Return what a session wrote after that number, in order."""
    asked: dict[str, Value] = {"session": session, "tenant": tenant, "after": after, "most": most}
    return tuple(experience_of(row) for row in _SESSION.rows(driver, asked))


def neighbours(
    driver: Driver, experience: Experience, *, before: int, after: int
) -> tuple[Experience, ...]:
    """Return what its session wrote around an experience in the same namespace, in order."""
    if experience.session is None:
        return ()
    asked: dict[str, Value] = {
        "session": experience.session,
        "namespace": experience.namespace,
        "number": experience.number,
    }
    earlier = _BEFORE.rows(driver, {**asked, "most": before})
    later = _AFTER.rows(driver, {**asked, "most": after})
    return tuple(experience_of(row) for row in (*reversed(earlier), *later))


def log_since(driver: Driver, tenant: TenantId, *, number: int, most: int) -> tuple[LogEntry, ...]:
    """Return what was logged after that number, in order."""
    asked: dict[str, Value] = {"tenant": tenant, "number": number, "most": most}
    return entries_of(_LOG_SINCE.rows(driver, asked))


def is_gone(experience: Experience, now_ms: int | None) -> bool:
    """Tell whether an experience has run out by `now_ms`."""
    expires = experience.expires_at_ms
    return now_ms is not None and expires is not None and expires <= now_ms
