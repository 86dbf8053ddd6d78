"""Statements of the hot path: written in Core, compiled once, run by the driver itself.

Core spends some ten times what SQLite needs for a point lookup on building the same
statement again. The ledger's few statements never change, so they are compiled when the
module is loaded and only their values travel.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ClauseElement
from sqlalchemy.dialects import sqlite

from memory_store.errors import UnstorableError

_DIALECT = sqlite.dialect(paramstyle="named")

_INT64_MAX = 2**63 - 1

Value = str | int | None
Values = Mapping[str, Value]

# What the driver raises at a value that it cannot bind, beside its own errors.
BINDING_ERRORS = (ValueError, OverflowError, TypeError)


class Statement:
    """One compiled statement; every value in it is a named parameter."""

    def __init__(self, clause: ClauseElement) -> None:
        compiled = clause.compile(dialect=_DIALECT)
        inlined = [name for name, value in compiled.params.items() if value is not None]
        assert not inlined, f"values would be lost: {inlined}"
        self._sql = str(compiled)

    def rows(self, driver: sqlite3.Connection, values: Values) -> list[Any]:
        """Return every row."""
        return self._execute(driver, values).fetchall()

    def row(self, driver: sqlite3.Connection, values: Values) -> Any:
        """Return the first row or None."""
        return self._execute(driver, values).fetchone()

    def run(self, driver: sqlite3.Connection, values: Values) -> int:
        """Return how many rows were changed."""
        return self._execute(driver, values).rowcount

    def run_many(self, driver: sqlite3.Connection, values: Iterable[Values]) -> None:
        """Run the statement once for each of `values`."""
        rows = tuple(values)
        try:
            driver.executemany(self._sql, rows)
        except BINDING_ERRORS as error:
            raise unstorable(*rows) from error

    def _execute(self, driver: sqlite3.Connection, values: Values) -> sqlite3.Cursor:
        try:
            return driver.execute(self._sql, values)
        except BINDING_ERRORS as error:
            raise unstorable(values) from error


def unstorable(*rows: Mapping[str, object]) -> UnstorableError:
    """Return the error that names which values of `rows` the driver could not bind."""
    names = {name: None for row in rows for name, value in row.items() if not _is_storable(value)}
    return UnstorableError(names=tuple(names))


def _is_storable(value: object) -> bool:
    match value:
        case int():
            return -_INT64_MAX - 1 <= value <= _INT64_MAX
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                return False
            return True
        case _:
            return value is None or isinstance(value, float | bytes)
