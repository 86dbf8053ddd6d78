"""What was erased, overwritten where a database file still has it, as often as it takes.

That it is due is noted in the transaction that erases, so neither a crash nor a reader of an older
state, for whom the log of SQLite is kept, makes anybody forget it. A server overwrites in its own
time, and nothing is noted there.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import anyio
from sqlalchemy import ColumnElement, Connection, bindparam, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from memory_store.engine import driver_of, is_shared
from memory_store.experiences.tables import experience_scrubs
from memory_store.statement import Driver, Statement, Values
from memory_store.writer import Writer

# Each is a transaction of its own; what is left is for the next purge.
_ROUNDS_MAX = 64

# While somebody reads an older state the log is kept for them: so often is it tried again.
TRIES = 20
TRY_EVERY_SECONDS = 0.05

Scrub = Callable[[Connection], bool]
"""Overwrites some of what an index still has of erased words; tells whether that was all."""

_scrubs = experience_scrubs.c
_ONE: ColumnElement[int] = literal_column("1")
_DUE = Statement(
    upsert(experience_scrubs)
    .values(number=_ONE, asked=_ONE, done=literal_column("0"))
    .on_conflict_do_update(index_elements=["number"], set_={"asked": _scrubs.asked + _ONE})
)
_ASKED = Statement(select(_scrubs.asked).where(_scrubs.asked > _scrubs.done))
_DONE = Statement(
    update(experience_scrubs).where(_scrubs.done < bindparam("upto")).values(done=bindparam("upto"))
)


def note_due(connection: Connection) -> None:
    """Note, in the transaction that erases, that what it erases has to be overwritten."""
    if not is_shared(connection):
        _DUE.run(driver_of(connection), {})


def is_due(connection: Connection) -> bool:
    """Tell whether something that was erased may still be in a database file."""
    return not is_shared(connection) and _ASKED.row(driver_of(connection), {}) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubbing:
    """Overwrites what was erased in a database file, and cuts what its log has of it."""

    writer: Writer
    scrubs: tuple[Scrub, ...] = ()

    async def scrub(self) -> None:
        """Return when what was erased is overwritten and gone from the log, or stays due.

        It stays so while somebody goes on reading an older state, or when it is very much.
        """
        for _ in range(_ROUNDS_MAX):
            seen = await self.writer.run(partial(_overwrite, scrubs=self.scrubs))
            if seen.is_all:
                break
        if seen.upto is None or not seen.is_all:
            return
        for _ in range(TRIES):
            if await self._cut():
                await self.writer.run(partial(_settle, upto=seen.upto))
                return
            await anyio.sleep(TRY_EVERY_SECONDS)

    async def catch_up(self) -> None:
        """Do what is due still, of erasures in this process or before it."""
        if await self.writer.run(is_due):
            await self.scrub()

    async def _cut(self) -> bool:
        drivers: list[Driver] = []
        uncut: list[Driver] = []
        await self.writer.run(
            lambda connection: drivers.append(driver_of(connection)),
            after_commit=lambda: uncut.extend(one for one in drivers if not _is_log_cut(one)),
        )
        return not uncut


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Up to which erasure the indexes were scrubbed, if any is due, and whether that was all."""

    upto: int | None
    is_all: bool


@contextmanager
def overwriting(connection: Connection) -> Iterator[None]:
    """Have SQLite write zeros over what is deleted; a server's vacuum does it in its time."""
    if is_shared(connection):
        yield
        return
    driver = driver_of(connection)
    driver.execute("PRAGMA secure_delete = ON")
    try:
        yield
    finally:
        driver.execute("PRAGMA secure_delete = OFF")


def _overwrite(connection: Connection, *, scrubs: Sequence[Scrub]) -> _Seen:
    if is_shared(connection):
        return _Seen(upto=None, is_all=True)
    row = _ASKED.row(driver_of(connection), {})
    with overwriting(connection):
        left = [scrub for scrub in scrubs if not scrub(connection)]
    return _Seen(upto=None if row is None else row[0], is_all=not left)


def _settle(connection: Connection, *, upto: int) -> None:
    done: Values = {"upto": upto}
    _DONE.run(driver_of(connection), done)


def _is_log_cut(driver: Driver) -> bool:
    """Tell whether the log of SQLite, which holds what pages were, is in the file and cut."""
    (usual_ms,) = driver.execute("PRAGMA busy_timeout").fetchone() or (0,)
    is_busy = True
    with suppress(sqlite3.Error):
        driver.execute("PRAGMA busy_timeout = 0")
        (is_busy, *_) = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() or (True,)
    driver.execute(f"PRAGMA busy_timeout = {int(usual_ms)}")
    return not is_busy
