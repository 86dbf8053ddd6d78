"""What kinds of work have used: sketches that every sidecar adds to, kept in bounded number."""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from governor.command_class import CommandClass
from governor.expectation import NOTHING_KNOWN, Known, Measure, Work
from governor.ids import TenantId, ToolName
from governor.sketch import Sketch
from memory_store.advisory import Duty, in_turn
from memory_store.reader import Reader
from memory_store.rows import json_of
from memory_store.tables import metadata
from memory_store.writer import Writer

# The kinds of work that are kept; those that nobody did for the longest time give way.
WORKS_MAX = 2_000

work_sketches = Table(
    "work_sketches",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("tool", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("repository", Text, primary_key=True),
    Column("sketches", Text, nullable=False),
    Column("changed_at_ms", BigInteger, nullable=False, index=True),
    sqlite_with_rowid=False,
)


# Pairs: between processes no key of a mapping has fields.
Learned = tuple[tuple[Work, Known], ...]


class WorkBook:
    """Keeps what is known of each kind of work."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def all(self) -> Learned:
        """Return what is known, what changed last first."""
        query = (
            select(work_sketches).order_by(work_sketches.c.changed_at_ms.desc()).limit(WORKS_MAX)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple((_work(row), _known(row.sketches)) for row in rows)

    async def add(self, learned: Learned, *, now_ms: int) -> None:
        """Add what was learned to what is known; what others add meanwhile is kept as well."""

        def add(connection: Connection) -> None:
            for work, known in learned:
                _add(connection, work, known, now_ms=now_ms)
            _forget(connection)

        # One at a time, so that nobody adds to what another is about to replace.
        await self._writer.run(in_turn(Duty.LEARNING, add))


def _add(connection: Connection, work: Work, known: Known, *, now_ms: int) -> None:
    is_this = _is(work)
    stored = connection.scalar(select(work_sketches.c.sketches).where(is_this))
    before = NOTHING_KNOWN if stored is None else _known(stored)
    changed = {"sketches": _text(before.plus(known)), "changed_at_ms": now_ms}
    if stored is not None:
        connection.execute(update(work_sketches).where(is_this).values(changed))
        return
    key = {
        "tenant": work.tenant,
        "tool": work.tool,
        "kind": work.kind.value,
        "repository": work.repository,
    }
    connection.execute(insert(work_sketches), {**key, **changed})


def _forget(connection: Connection) -> None:
    """Remove what nobody did for the longest time, where there is too much."""
    count = connection.scalar(select(func.count()).select_from(work_sketches)) or 0
    if count <= WORKS_MAX:
        return
    oldest = select(work_sketches).order_by(work_sketches.c.changed_at_ms).limit(count - WORKS_MAX)
    for row in connection.execute(oldest).all():
        connection.execute(delete(work_sketches).where(_is(_work(row))))


def _is(work: Work) -> ColumnElement[bool]:
    table = work_sketches.c
    return (
        (table.tenant == work.tenant)
        & (table.tool == work.tool)
        & (table.kind == work.kind.value)
        & (table.repository == work.repository)
    )


def _text(known: Known) -> str:
    return json_of(
        {
            measure.value: {str(bucket): count for bucket, count in sketch.buckets.items()}
            for measure, sketch in known.sketches.items()
        }
    )


def _known(text: str) -> Known:
    """Return what a row knows; measures that this version does not have are left out."""
    found: Mapping[str, Mapping[str, int]] = json.loads(text)
    return Known(
        sketches={
            Measure(name): Sketch({int(bucket): count for bucket, count in buckets.items()})
            for name, buckets in found.items()
            if name in _MEASURES
        }
    )


_MEASURES = frozenset(measure.value for measure in Measure)


def _work(row: Any) -> Work:
    return Work(
        tenant=TenantId(row.tenant),
        tool=ToolName(row.tool),
        kind=CommandClass(row.kind),
        repository=row.repository,
    )
