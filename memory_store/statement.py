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

_DIALECT = sqlite.dialect(paramstyle="named")

Value = str | int | None
Values = Mapping[str, Value]


class Statement:
    """One compiled statement; every value in it is a named parameter."""

    def __init__(self, clause: ClauseElement) -> None:
        compiled = clause.compile(dialect=_DIALECT)
        inlined = [name for name, value in compiled.params.items() if value is not None]
        assert not inlined, f"values would be lost: {inlined}"
        self._sql = str(compiled)

    def rows(self, driver: sqlite3.Connection, values: Values) -> list[Any]:
        """Return every row."""
        return driver.execute(self._sql, values).fetchall()

    def row(self, driver: sqlite3.Connection, values: Values) -> Any:
        """Return the first row or None."""
        return driver.execute(self._sql, values).fetchone()

    def run(self, driver: sqlite3.Connection, values: Values) -> int:
        """Return how many rows were changed."""
        return driver.execute(self._sql, values).rowcount

    def run_many(self, driver: sqlite3.Connection, values: Iterable[Values]) -> None:
        """Run the statement once for each of `values`."""
        driver.executemany(self._sql, values)
