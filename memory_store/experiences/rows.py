"""Experiences as columns, and back."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sqlalchemy import Column, exc

from governor.experience.experience import Experience, Provenance
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.signing import proven_lane
from governor.ids import CallId, ExperienceId, PrincipalId
from memory_store.errors import ExperienceCorruptError
from memory_store.experiences.tables import experiences
from memory_store.rows import json_of
from memory_store.statement import Driver

T = TypeVar("T")

_NAMES = tuple(column.name for column in experiences.columns)
_HEAD = _NAMES[: _NAMES.index("content")]
# All but the content, in the order that `experience_of` reads.
HEAD = tuple(experiences.c[name] for name in _HEAD)
_NONE = json_of(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An experience with what only the store knows of it.

    `stated` is the experience as it was written, before anything corrected it.
    """

    experience: Experience
    stated: Experience
    salt: bytes
    entry_number: int
    entry_hash: str
    traits: int


def experience_of(row: Sequence[Any]) -> Experience:
    """Return the experience in a row of `HEAD`.

    Raises:
        ExperienceCorruptError: it holds what nobody wrote there.
    """
    if not _SHAPE.fits(row):
        raise ExperienceCorruptError
    try:
        return _experience_of(row)
    # Lists in lists without end make the JSON reader give up.
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ExperienceCorruptError from error


def readable(rows: Iterable[Sequence[Any]]) -> Iterator[Experience]:
    """Yield the experiences in rows of `HEAD`, without those that cannot be read."""
    for row in rows:
        try:
            yield experience_of(row)
        except ExperienceCorruptError:
            """One that is damaged hides no other; it is told of when the books are checked."""


def read_through(driver: Driver, read: Callable[[], T]) -> T:
    """Return what `read` reads; text that is no UTF-8 does not stop it and comes as bytes."""
    try:
        return read()
    except (sqlite3.OperationalError, exc.OperationalError) as error:
        if "decode to UTF-8" not in str(error):
            raise
    with undecoded(driver):
        return read()


@contextmanager
def undecoded(driver: Driver) -> Iterator[None]:
    """Have SQLite hand out text that is no UTF-8 as bytes; a server takes no such text."""
    if not isinstance(driver, sqlite3.Connection):
        yield
        return
    driver.text_factory = _text_or_bytes
    try:
        yield
    finally:
        driver.text_factory = str


def _text_or_bytes(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def bytes_of(value: object) -> bytes:
    """Return the bytes in a column.

    Raises:
        ExperienceCorruptError: it holds something else.
    """
    if not isinstance(value, bytes | memoryview):
        raise ExperienceCorruptError
    return bytes(value)


def _experience_of(row: Sequence[Any]) -> Experience:
    (
        number, experience_id, tenant, namespace, kind, lane, standing, address, size_bytes,
        tokens, _traits, media_type, writer, call_id, upstream, source, derived_from,
        learned_at_ms, valid_from_ms, valid_until_ms, actor, session, task_class, tags,
        cost_microusd, outcome, supersedes, superseded_by, superseded_at_ms, superseded_from_ms,
        expires_at_ms, signature, _salt, _entry_number, _entry_hash, summary, *_rest,
    ) = row  # fmt: skip
    if not (type(summary) is type(media_type) is type(source) is type(actor) is str):
        message = "bytes stand where text is meant"
        raise TypeError(message)
    return Experience(
        experience_id=experience_id,
        number=number,
        tenant=tenant,
        namespace=namespace,
        kind=_KINDS[kind],
        lane=_LANES[lane],
        standing=_STANDINGS[standing],
        address=address,
        size_bytes=size_bytes,
        tokens=tokens,
        media_type=media_type,
        summary=summary,
        provenance=Provenance(
            writer=PrincipalId(writer),
            call_id=None if call_id is None else CallId(call_id),
            upstream=upstream,
            source=source,
            derived_from=tuple(ExperienceId(one) for one in texts_of(derived_from)),
        ),
        learned_at_ms=learned_at_ms,
        valid_from_ms=valid_from_ms,
        valid_until_ms=_earlier(valid_until_ms, superseded_from_ms),
        actor=actor,
        session=session,
        task_class=task_class,
        tags=texts_of(tags),
        cost_microusd=cost_microusd,
        outcome=outcome,
        supersedes=supersedes,
        superseded_by=superseded_by,
        expires_at_ms=expires_at_ms,
        signature=signature,
        superseded_at_ms=superseded_at_ms,
        stated_until_ms=valid_until_ms,
    )


def proven(experience: Experience, secret: bytes) -> Experience:
    """Return the experience in the lane that its signature proves.

    One that may not instruct has no authority to lose, so only the others are looked at.
    """
    if not experience.lane.instructs:
        return experience
    return replace(experience, lane=proven_lane(experience, key=secret))


def kept_of(row: Sequence[Any]) -> Kept:
    """Return what a row of `HEAD` holds, the store's own part of it too."""
    experience = experience_of(row)
    return Kept(
        experience=experience,
        stated=replace(experience, valid_until_ms=row[_AT["valid_until_ms"]]),
        salt=bytes_of(row[_AT["salt"]]),
        entry_number=row[_AT["entry_number"]],
        entry_hash=row[_AT["entry_hash"]],
        traits=row[_AT["traits"]],
    )


def columns_of(
    experience: Experience, *, traits: int, salt: bytes, content: bytes | None
) -> dict[str, Any]:
    """Return the columns of an experience, but for where it stands in the log."""
    provenance = experience.provenance
    return {
        "number": experience.number,
        "experience_id": experience.experience_id,
        "tenant": experience.tenant,
        "namespace": experience.namespace,
        "kind": experience.kind.value,
        "lane": experience.lane.value,
        "standing": experience.standing.value,
        "address": experience.address,
        "size_bytes": experience.size_bytes,
        "tokens": experience.tokens,
        "traits": traits,
        "media_type": experience.media_type,
        "writer": provenance.writer,
        "call_id": provenance.call_id,
        "upstream": provenance.upstream,
        "source": provenance.source,
        "derived_from": _listed(provenance.derived_from),
        "learned_at_ms": experience.learned_at_ms,
        "valid_from_ms": experience.valid_from_ms,
        "valid_until_ms": experience.valid_until_ms,
        "actor": experience.actor,
        "session": experience.session,
        "task_class": experience.task_class,
        "tags": _listed(experience.tags),
        "cost_microusd": experience.cost_microusd,
        "outcome": experience.outcome,
        "supersedes": experience.supersedes,
        "superseded_by": None,
        "superseded_at_ms": None,
        "superseded_from_ms": None,
        "expires_at_ms": experience.expires_at_ms,
        "signature": experience.signature,
        "salt": salt,
        "summary": experience.summary,
        "content": content,
    }


# SQLite stores whatever it is given in whatever column.
_MEANT: dict[type, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (float, int),
    bytes: (bytes, memoryview),
}
_SHAPES_MAX = 1_000


class Shape:
    """What types the values in some columns have."""

    def __init__(self, columns: Sequence[Column[Any]]) -> None:
        """Take the columns, in their order."""
        self._count = len(columns)
        self._meant = [
            (*_MEANT[column.type.python_type], *((type(None),) if column.nullable else ()))
            for column in columns
        ]
        # Most rows have the types of one before them.
        self._seen: set[tuple[type, ...]] = set()

    def fits(self, row: Sequence[Any]) -> bool:
        """Tell whether a row that begins with these columns holds what belongs there."""
        types = tuple(map(type, row[: self._count]))
        if types in self._seen:
            return True
        fits = len(types) == self._count and all(map(_is_among, types, self._meant))
        if fits and len(self._seen) < _SHAPES_MAX:
            self._seen.add(types)
        return fits


def _is_among(one: type, meant: tuple[type, ...]) -> bool:
    return one in meant


_SHAPE = Shape(HEAD)
_AT = {name: place for place, name in enumerate(_HEAD)}
# The value of an enumeration's member is a computed attribute, and its lookup by value slow.
_KINDS = {kind.value: kind for kind in ExperienceKind}
_LANES = {lane.value: lane for lane in TrustLane}
_STANDINGS = {standing.value: standing for standing in Standing}


def texts_of(listed: str) -> tuple[str, ...]:
    """Return the texts in a column that lists some.

    Raises:
        ValueError: it lists something else.
    """
    if listed == _NONE:
        return ()
    texts = json.loads(listed)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        message = "it is no list of texts"
        raise ValueError(message)
    return tuple(texts)


def _listed(texts: Sequence[str]) -> str:
    return json_of(texts) if texts else _NONE


def _earlier(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
