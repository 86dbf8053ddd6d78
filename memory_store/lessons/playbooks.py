"""Playbooks, each the sum of its deltas, with every version that is not too old to go back to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from governor.experience.playbook import Delta, DeltaKind, Playbook, merged
from governor.ids import ExperienceId, NamespaceId, TaskClass, TenantId
from memory_store.advisory import Duty, in_turn
from memory_store.audit import Actor, note
from memory_store.errors import NotFoundError, VersionConflictError
from memory_store.lessons.playbook_rows import (
    bullets_text,
    delta_of,
    delta_row,
    erased_from,
    playbook_from,
    playbook_id_of,
    without_text,
)
from memory_store.lessons.tables import playbook_deltas, playbook_sources, playbooks
from memory_store.reader import Reader
from memory_store.writer import Writer

# Above it the older half is summed up for good: a playbook is read in milliseconds.
DELTAS_MAX = 4_000
# Bullets that are shown; an agent that adds without end must not push out what others said.
BULLETS_MAX = 500
LISTED_MAX = 200
_NAMED_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlaybook:
    """A playbook as of a version; version 0 is one that nobody has written."""

    playbook_id: str
    tenant: TenantId
    namespace: NamespaceId
    task_class: TaskClass
    version: int
    folded_until: int
    changed_at_ms: int
    playbook: Playbook


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookView:
    """What is known of a playbook beside its bullets."""

    playbook_id: str
    namespace: NamespaceId
    task_class: TaskClass
    version: int
    changed_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What became of deltas: how many are new, were known already, or found no room."""

    version: int
    added: int
    known: int
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookVersion:
    """One version: how many deltas came with it, how many of them count, whose they are."""

    version: int
    deltas: int
    undone: int
    written_by: tuple[str, ...]
    at_ms: int


class PlaybookBook:
    """Keeps the playbooks of tenants."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def get(
        self, tenant: TenantId, namespace: NamespaceId, task_class: TaskClass
    ) -> KeptPlaybook:
        """Return the playbook of a class of tasks, an empty one where there is none."""
        return await self._reader.run(
            lambda connection: _get(connection, tenant, namespace, task_class)
        )

    async def version(self, tenant: TenantId, namespace: NamespaceId, task_class: TaskClass) -> int:
        """Return the version of a playbook; 0 where there is none."""
        name = playbook_id_of(tenant, namespace, task_class)
        query = select(playbooks.c.version).where(playbooks.c.playbook_id == name)
        found = await self._reader.run(lambda connection: connection.scalar(query))
        return int(found or 0)

    async def all(self, tenant: TenantId) -> tuple[PlaybookView, ...]:
        """Return the playbooks of a tenant, the latest first."""
        table = playbooks.c
        query = (
            select(table.playbook_id, table.namespace, table.task_class, table.version,
                   table.changed_at_ms)
            .where(table.tenant == tenant)
            .order_by(table.changed_at_ms.desc(), table.playbook_id)
            .limit(LISTED_MAX)
        )  # fmt: skip
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(
            PlaybookView(
                playbook_id=row.playbook_id,
                namespace=NamespaceId(row.namespace),
                task_class=TaskClass(row.task_class),
                version=row.version,
                changed_at_ms=row.changed_at_ms,
            )
            for row in rows
        )

    async def merge(
        self,
        deltas: tuple[Delta, ...],
        *,
        tenant: TenantId,
        namespace: NamespaceId,
        task_class: TaskClass,
        now_ms: int,
    ) -> Merged:
        """Return what became of deltas; those that are new make one version together."""

        def work(connection: Connection) -> Merged:
            kept = _get(connection, tenant, namespace, task_class)
            known = _known(connection, kept.playbook_id, [one.delta_id for one in deltas])
            fresh = list(
                {one.delta_id: one for one in deltas if one.delta_id not in known}.values()
            )
            allowed = _with_room(kept.playbook, fresh)
            result = Merged(
                version=kept.version + bool(allowed),
                added=len(allowed),
                known=len(deltas) - len(fresh),
                refused=len(fresh) - len(allowed),
            )
            if allowed:
                _write(connection, kept, allowed, now_ms=now_ms)
            return result

        return await self._writer.run(in_turn(Duty.LEARNING, work))

    async def history(
        self, tenant: TenantId, namespace: NamespaceId, task_class: TaskClass
    ) -> tuple[PlaybookVersion, ...]:
        """Return the versions that can be gone back to and the one in force, the latest first."""
        table = playbook_deltas.c
        name = playbook_id_of(tenant, namespace, task_class)
        query = (
            select(
                table.version,
                func.count().label("deltas"),
                func.count(table.undone_in).label("undone"),
                func.max(table.at_ms).label("at_ms"),
            )
            .where(table.playbook_id == name)
            .group_by(table.version)
            .order_by(table.version.desc())
            .limit(LISTED_MAX)
        )
        writers = (
            select(table.version, table.written_by).where(table.playbook_id == name).distinct()
        )

        def read(connection: Connection) -> tuple[PlaybookVersion, ...]:
            by: dict[int, list[str]] = {}
            for row in connection.execute(writers):
                by.setdefault(row.version, []).append(row.written_by)
            return tuple(
                PlaybookVersion(
                    version=row.version,
                    deltas=row.deltas,
                    undone=row.undone,
                    written_by=tuple(sorted(by[row.version])),
                    at_ms=row.at_ms,
                )
                for row in connection.execute(query)
            )

        return await self._reader.run(read)

    async def rollback(
        self,
        *,
        tenant: TenantId,
        namespace: NamespaceId,
        task_class: TaskClass,
        to_version: int,
        expected: int,
        by: Actor,
        now_ms: int,
    ) -> KeptPlaybook:
        """Return the playbook as it was in a version, which is a version of its own.

        What came later stays in the history and counts no more.

        Raises:
            NotFoundError: there is no such version, or it is too old to go back to.
            VersionConflictError: another version than `expected` is in force.
        """

        def work(connection: Connection) -> KeptPlaybook:
            kept = _get(connection, tenant, namespace, task_class)
            if kept.version != expected:
                raise VersionConflictError(expected=expected, actual=kept.version)
            if not kept.folded_until <= to_version < kept.version:
                message = f"version {to_version} of the playbook cannot be gone back to"
                raise NotFoundError(message)
            _undo(connection, kept, to_version=to_version, now_ms=now_ms)
            note(
                connection,
                by=by,
                at_ms=now_ms,
                action="playbook.rollback",
                target=kept.playbook_id,
                before={"version": kept.version},
                after={"version": kept.version + 1, "as_of": to_version},
            )
            return _get(connection, tenant, namespace, task_class)

        return await self._writer.run(in_turn(Duty.LEARNING, work))


def forget_sources(
    connection: Connection, tenant: TenantId, sources: Sequence[ExperienceId]
) -> None:
    """Erase the bullets for which nothing else stands, and the word of the sources for others."""
    table = playbook_sources.c
    mine = select(playbooks.c.playbook_id).where(playbooks.c.tenant == tenant)
    touched: set[tuple[str, str]] = set()
    for some in _some(list(sources)):
        is_gone = table.source.in_(some) & table.playbook_id.in_(mine)
        query = select(table.playbook_id, table.bullet).where(is_gone)
        touched |= {(row.playbook_id, row.bullet) for row in connection.execute(query)}
        connection.execute(delete(playbook_sources).where(is_gone))
    for playbook_id, bullet in touched:
        is_it = (table.playbook_id == playbook_id) & (table.bullet == bullet)
        if connection.scalar(select(func.count()).where(is_it)) == 0:
            _erase_bullet(connection, playbook_id, bullet)


def _erase_bullet(connection: Connection, playbook_id: str, bullet: str) -> None:
    table = playbook_deltas.c
    is_add = (table.playbook_id == playbook_id) & (table.bullet == bullet)
    query = select(table.delta_id, table.content).where(is_add, table.kind == DeltaKind.ADD.value)
    for row in connection.execute(query).all():
        is_this = (table.playbook_id == playbook_id) & (table.delta_id == row.delta_id)
        values = {"content": without_text(row.content)}
        connection.execute(update(playbook_deltas).where(is_this).values(values))
    books = playbooks.c
    is_book = books.playbook_id == playbook_id
    folded = connection.scalar(select(books.folded).where(is_book))
    left = erased_from(folded or "[]", (bullet,))
    changed = update(playbooks).where(is_book).values(folded=left, version=books.version + 1)
    connection.execute(changed)


def _get(
    connection: Connection, tenant: TenantId, namespace: NamespaceId, task_class: TaskClass
) -> KeptPlaybook:
    name = playbook_id_of(tenant, namespace, task_class)
    row = connection.execute(select(playbooks).where(playbooks.c.playbook_id == name)).one_or_none()
    table = playbook_deltas.c
    query = select(playbook_deltas).where(table.playbook_id == name, table.undone_in.is_(None))
    deltas = () if row is None else map(delta_of, connection.execute(query))
    return KeptPlaybook(
        playbook_id=name,
        tenant=tenant,
        namespace=namespace,
        task_class=task_class,
        version=0 if row is None else row.version,
        folded_until=0 if row is None else row.folded_until,
        changed_at_ms=0 if row is None else row.changed_at_ms,
        playbook=merged(playbook_from("[]" if row is None else row.folded), deltas),
    )


def _known(connection: Connection, playbook_id: str, ids: Sequence[str]) -> set[str]:
    """Return which deltas are there; one that was undone is, for it was decided that it is not."""
    table, found = playbook_deltas.c, set[str]()
    for some in _some(list(ids)):
        query = select(table.delta_id).where(
            table.playbook_id == playbook_id, table.delta_id.in_(some)
        )
        found |= set(connection.scalars(query))
    return found


def _with_room(playbook: Playbook, deltas: Sequence[Delta]) -> list[Delta]:
    """Return the deltas without those that would add a bullet to a full playbook."""
    count, known = len(playbook.shown), set(playbook.bullets)
    allowed: list[Delta] = []
    for delta in deltas:
        if delta.kind is DeltaKind.ADD and delta.bullet not in known:
            if count >= BULLETS_MAX:
                continue
            count += 1
            known.add(delta.bullet)
        allowed.append(delta)
    return allowed


def _write(
    connection: Connection, kept: KeptPlaybook, deltas: Sequence[Delta], *, now_ms: int
) -> None:
    version = kept.version + 1
    if kept.version == 0:
        connection.execute(
            insert(playbooks),
            {
                "playbook_id": kept.playbook_id,
                "tenant": kept.tenant,
                "namespace": kept.namespace,
                "task_class": kept.task_class,
                "version": version,
                "folded_until": 0,
                "folded": "[]",
                "changed_at_ms": now_ms,
            },
        )
    else:
        _set_version(connection, kept.playbook_id, version, now_ms=now_ms)
    rows = [delta_row(kept.playbook_id, version, one) for one in deltas]
    connection.execute(insert(playbook_deltas), rows)
    _keep_sources(connection, kept.playbook_id, deltas)
    _fold(connection, kept.playbook_id)


def _keep_sources(connection: Connection, playbook_id: str, deltas: Sequence[Delta]) -> None:
    wanted = {(one.bullet, source) for one in deltas for source in one.sources}
    table = playbook_sources.c
    query = select(table.bullet, table.source).where(
        table.playbook_id == playbook_id, table.bullet.in_({bullet for bullet, _ in wanted})
    )
    there = {(row.bullet, row.source) for row in connection.execute(query)}
    rows = [
        {"playbook_id": playbook_id, "bullet": bullet, "source": source}
        for bullet, source in sorted(wanted - there)
    ]
    if rows:
        connection.execute(insert(playbook_sources), rows)


def _fold(connection: Connection, playbook_id: str) -> None:
    """Sum the older half of too many deltas up for good; what was undone is forgotten."""
    table = playbook_deltas.c
    is_its = table.playbook_id == playbook_id
    versions = connection.scalars(select(table.version).where(is_its).order_by(table.version)).all()
    if len(versions) <= DELTAS_MAX:
        return
    until = versions[len(versions) // 2]
    is_old = is_its & (table.version <= until)
    query = select(playbook_deltas).where(is_old, table.undone_in.is_(None))
    row: Any = connection.execute(
        select(playbooks.c.folded).where(playbooks.c.playbook_id == playbook_id)
    ).one()
    folded = merged(playbook_from(row.folded), map(delta_of, connection.execute(query)))
    connection.execute(
        update(playbooks)
        .where(playbooks.c.playbook_id == playbook_id)
        .values(folded=bullets_text(folded.bullets), folded_until=until)
    )
    connection.execute(delete(playbook_deltas).where(is_old))


def _undo(connection: Connection, kept: KeptPlaybook, *, to_version: int, now_ms: int) -> None:
    """Let exactly those deltas count that counted in a version."""
    table, version = playbook_deltas.c, kept.version + 1
    is_its = table.playbook_id == kept.playbook_id
    came_later = is_its & (table.version > to_version) & table.undone_in.is_(None)
    connection.execute(update(playbook_deltas).where(came_later).values(undone_in=version))
    # What was undone after that version had counted in it.
    counted = is_its & (table.version <= to_version) & (table.undone_in > to_version)
    connection.execute(update(playbook_deltas).where(counted).values(undone_in=None))
    _set_version(connection, kept.playbook_id, version, now_ms=now_ms)


def _set_version(connection: Connection, playbook_id: str, version: int, *, now_ms: int) -> None:
    connection.execute(
        update(playbooks)
        .where(playbooks.c.playbook_id == playbook_id)
        .values(version=version, changed_at_ms=now_ms)
    )


def _some(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids, as many at a time as a statement can name."""
    for start in range(0, len(ids), _NAMED_AT_ONCE):
        yield ids[start : start + _NAMED_AT_ONCE]
