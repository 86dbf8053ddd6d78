"""A driver whose n-th operation fails, below everything that the store is made of.

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
    # The work was done and the word of it was lost.
    DONE_AND_UNSAID = "disk I/O error (10)"


_ENDS_TRANSACTION = (Failure.FULL, Failure.IOERR)


@dataclass
class Driver:
    """Counts the operations of all connections, and fails one of them."""

    failing: int | None = None
    failure: Failure = Failure.IOERR
    count: int = 0
    failed: str | None = None
    ever_failed: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def arm(self, failing: int | None, failure: Failure) -> None:
        with self._lock:
            self.failing, self.failure = failing, failure
            self.count, self.failed = 0, None

    def run(self, connection: sqlite3.Connection, what: str, act: Callable[[], Any]) -> Any:
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
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect)
        patch.setattr(sqlite3.dbapi2, "connect", connect)
        yield driver
