"""What is noted of who was given which experience, and what came of it."""

from collections.abc import Sequence

from sqlalchemy import Boolean, Connection, Double, bindparam, delete, insert, select

from governor.ids import CallId, ExperienceId, PrincipalId, SessionId, TenantId
from memory_store.advisory import Duty, is_free
from memory_store.engine import driver_of
from memory_store.errors import InvalidExperienceError
from memory_store.experiences.drafts import checked_names
from memory_store.experiences.tables import experience_uses, experiences
from memory_store.experiences.values import UseNote
from memory_store.statement import Driver, Statement, Value

NOTES_MAX = 1_000
# How many one transaction removes, so that nobody behind it waits for long.
REMOVED_AT_ONCE = 500
_rows, _uses = experiences.c, experience_uses.c
_NUMBER = Statement(
    select(_rows.experience_id, _rows.number).where(
        _rows.tenant == bindparam("tenant"), _rows.experience_id == bindparam("experience_id")
    )
)
_PUT = Statement(
    insert(experience_uses).values(
        {
            "number": bindparam("number"),
            "reader": bindparam("reader"),
            "session": bindparam("session"),
            "call_id": bindparam("call_id"),
            "at_ms": bindparam("at_ms"),
            "used": bindparam("used", type_=Boolean),
            "score": bindparam("score", type_=Double),
        }
    )
)


def checked(notes: Sequence[UseNote]) -> None:
    """Return if all of `notes` can be kept.

    Raises:
        InvalidExperienceError: a score is not between 0 and 1, or they are too many.
        UnstorableError: a name is not one that a database holds.
    """
    if len(notes) > NOTES_MAX:
        message = f"{len(notes)} notes at once are above {NOTES_MAX}"
        raise InvalidExperienceError(message)
    for note in notes:
        checked_names(reader=note.reader, session=note.session, call_id=note.call_id)
        if note.score is not None and not 0 <= note.score <= 1:
            message = "a score is not between 0 and 1"
            raise InvalidExperienceError(message)


def note(connection: Connection, *, notes: Sequence[UseNote], tenant: TenantId) -> int:
    """Return how many were taken; those on what is not there are passed over."""
    driver = driver_of(connection)
    numbers = _numbers(driver, tenant, [note.experience_id for note in notes])
    rows: list[dict[str, Value]] = [
        {
            "number": numbers[note.experience_id],
            "reader": note.reader,
            "session": note.session,
            "call_id": note.call_id,
            "at_ms": note.at_ms,
            "used": note.used,
            "score": note.score,
        }
        for note in notes
        if note.experience_id in numbers
    ]
    _PUT.run_each(driver, rows)
    return len(rows)


def uses_of(
    connection: Connection,
    *,
    ids: Sequence[ExperienceId],
    tenant: TenantId,
    most: int,
    only_rated: bool = False,
) -> tuple[UseNote, ...]:
    """Return who was given those experiences and what came of it, the latest first.

    Of those that somebody has rated, the worst come first: no number of others hides them.
    """
    order = (_uses.score, _uses.id.desc()) if only_rated else (_uses.id.desc(),)
    query = (
        select(
            _rows.experience_id,
            _uses.reader,
            _uses.at_ms,
            _uses.session,
            _uses.call_id,
            _uses.used,
            _uses.score,
        )
        .join_from(experience_uses, experiences, _rows.number == _uses.number)
        .where(_rows.tenant == tenant, _rows.experience_id.in_(ids))
        .order_by(*order)
        .limit(most)
    )
    if only_rated:
        query = query.where(_uses.score.is_not(None))
    return tuple(
        UseNote(
            experience_id=ExperienceId(experience_id),
            reader=PrincipalId(reader),
            at_ms=at_ms,
            session=None if session is None else SessionId(session),
            call_id=None if call_id is None else CallId(call_id),
            used=used,
            score=score,
        )
        for experience_id, reader, at_ms, session, call_id, used, score in connection.execute(query)
    )


def remove_old(connection: Connection, *, before_ms: int) -> int:
    """Return how many notes of before that time were removed, of which there may be more."""
    if not is_free(connection, Duty.RETENTION):
        return 0
    old = select(_uses.id).where(_uses.at_ms < before_ms).limit(REMOVED_AT_ONCE)
    ids = connection.scalars(old).all()
    connection.execute(delete(experience_uses).where(_uses.id.in_(ids)))
    return len(ids)


def _numbers(driver: Driver, tenant: TenantId, ids: Sequence[ExperienceId]) -> dict[str, int]:
    asked: list[dict[str, Value]] = [
        {"tenant": tenant, "experience_id": one} for one in dict.fromkeys(ids)
    ]
    return dict(_NUMBER.rows_many(driver, asked))
