"""A driver of which an operation fails, or that hangs or refuses, below all the store is made of.

It stands in for `sqlite3.connect`, so whatever the store does with its connections (its own
statements, SQLAlchemy's, BEGIN and COMMIT) is counted and can be made to fail.
"""

import functools
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest


class Failure(StrEnum):
    """What goes wrong. On a full disk and on an I/O error SQLite ends the transaction itself."""

    FULL = "database or disk is full"
    IOERR = "disk I/O error"
    BUSY = "database is locked"
    CORRUPT = "database disk image is malformed"
    READONLY = "attempt to write a readonly database"
    # The work was done and the word of it was lost.
    DONE_AND_UNSAID = "disk I/O error (10)"


_STOPPED_SECONDS_MAX = 60
_ENDS_TRANSACTION = (Failure.FULL, Failure.IOERR)


@dataclass
class Driver:
    """Counts the operations of all connections, and fails one of them."""

    failing: int | None = None
    failure: Failure = Failure.IOERR
    count: int = 0
    failed: str | None = None
    ever_failed: set[str] = field(default_factory=set)
    writing: list[sqlite3.Connection] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _syncs: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._syncs.set()

    def arm(self, failing: int | None, failure: Failure) -> None:
        with self._lock:
            self.failing, self.failure = failing, failure
            self.count, self.failed = 0, None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let every COMMIT wait, as if for a disk that does not answer."""
        self._syncs.clear()
        try:
            yield
        finally:
            self._syncs.set()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Have SQLite itself refuse every write, as to a file that may only be read."""
        try:
            self._say_to_writers("PRAGMA query_only = ON")
            yield
        finally:
            self._say_to_writers("PRAGMA query_only = OFF")

    def _say_to_writers(self, pragma: str) -> None:
        for connection in self.writing:
            sqlite3.Connection.execute(connection, pragma).close()

    def run(self, connection: sqlite3.Connection, what: str, act: Callable[[], Any]) -> Any:
        if what == "COMMIT":
            assert self._syncs.wait(_STOPPED_SECONDS_MAX), "the disk was never let go on"
        if not self._is_next(what):
            return act()
        if self.failure is Failure.DONE_AND_UNSAID:
            act()
        elif self.failure in _ENDS_TRANSACTION and connection.in_transaction:
            sqlite3.Connection.rollback(connection)
        is_corrupt = self.failure is Failure.CORRUPT
        raise (sqlite3.DatabaseError if is_corrupt else sqlite3.OperationalError)(
            self.failure.value
        )

    def _is_next(self, what: str) -> bool:
        # A ROLLBACK undoes even where it reports that it failed: SQLite has nothing to write.
        if what.startswith("ROLLBACK"):
            return False
        with self._lock:
            self.count += 1
            if self.failing is None or self.count != self.failing:
                return False
            self.failed = what
            self.ever_failed.add(what)
            return True


class FailingCursor(sqlite3.Cursor):
    """Every statement through a cursor is an operation."""

    connection: "FailingConnection"

    def execute(self, sql: str, *values: Any) -> Any:
        act = functools.partial(sqlite3.Cursor.execute, self, sql, *values)
        return self.connection.driver.run(self.connection, sql, act)

    def executemany(self, sql: str, values: Any) -> Any:
        act = functools.partial(sqlite3.Cursor.executemany, self, sql, values)
        return self.connection.driver.run(self.connection, sql, act)


class FailingConnection(sqlite3.Connection):
    """Every statement and every COMMIT is an operation."""

    driver: Driver

    def cursor(self, factory: Any = FailingCursor) -> Any:
        return super().cursor(factory)

    def execute(self, sql: str, *values: Any) -> Any:
        act = functools.partial(sqlite3.Connection.execute, self, sql, *values)
        return self.driver.run(self, sql, act)

    def executemany(self, sql: str, values: Any) -> Any:
        act = functools.partial(sqlite3.Connection.executemany, self, sql, values)
        return self.driver.run(self, sql, act)

    def commit(self) -> None:
        self.driver.run(self, "COMMIT", functools.partial(sqlite3.Connection.commit, self))


@contextmanager
def failing_driver() -> Iterator[Driver]:
    """Yield the driver of every connection that is opened meanwhile."""
    driver = Driver()
    real = sqlite3.connect

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: FailingConnection = real(
            *arguments, **{**options, "factory": FailingConnection}
        )
        connection.driver = driver
        if "mode=rwc" in str(arguments[0]):
            driver.writing.append(connection)
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect)
        patch.setattr(sqlite3.dbapi2, "connect", connect)
        yield driver
