"""What was erased from a database file is overwritten, and gone from the file's log."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import anyio
from sqlalchemy import Connection

from memory_store.engine import driver_of, is_shared
from memory_store.statement import Driver
from memory_store.writer import Writer

# While somebody reads an older state the log is kept for them: so often is it tried again.
TRIES = 20
TRY_EVERY_SECONDS = 0.05

Scrub = Callable[[Connection], None]
"""Overwrites what an index still has of the words that were erased."""


@dataclass(slots=True, kw_only=True)
class Scrubbing:
    """Overwrites what was erased; a server does that in its own time.

    What a log still holds, because somebody goes on reading, the next purge cuts. So does the
    first one, for whatever came before this process.
    """

    writer: Writer
    scrubs: tuple[Scrub, ...] = ()
    is_due: bool = field(default=True, init=False)

    async def scrub(self) -> None:
        """Return when what was erased is overwritten and gone from the log, or that is due."""

        def work(connection: Connection) -> None:
            with overwriting(connection):
                for scrub in self.scrubs:
                    scrub(connection)

        self.is_due = True
        await self.writer.run(work)
        for _ in range(TRIES):
            await self._cut()
            if not self.is_due:
                return
            await anyio.sleep(TRY_EVERY_SECONDS)

    async def catch_up(self) -> None:
        """Scrub if that is due; a crash may have come before."""
        if self.is_due:
            await self.scrub()

    async def _cut(self) -> None:
        """Cut the log if nobody reads an older state."""
        drivers: list[Driver] = []

        def work(connection: Connection) -> None:
            if is_shared(connection):
                self.is_due = False
            else:
                drivers.append(driver_of(connection))

        def empty() -> None:
            for driver in drivers:
                self.is_due = not _is_emptied(driver)

        await self.writer.run(work, after_commit=empty)


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


def _is_emptied(driver: Driver) -> bool:
    """Have the log of SQLite, which holds what pages were, copied into the file and cut."""
    is_busy = True
    (waits_ms,) = driver.execute("PRAGMA busy_timeout").fetchone() or (0,)
    with suppress(sqlite3.Error):
        driver.execute("PRAGMA busy_timeout = 0")
        (is_busy, *_) = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() or (True,)
    driver.execute(f"PRAGMA busy_timeout = {int(waits_ms)}")
    return not is_busy
