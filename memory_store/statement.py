"""Statements of the hot path: written in Core, compiled once, run by the driver itself.

Core spends some ten times what SQLite needs for a point lookup on building the same
statement again. The ledger's few statements never change, so they are compiled when the
module is loaded, for both databases, and only their values travel. An upsert is written
with PostgreSQL's `insert`, which both compile; SQLite's own is refused by PostgreSQL.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import psycopg
from sqlalchemy import ClauseElement
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

from memory_store.errors import UnstorableError
from memory_store.many import ManyRows

# SQLite's driver looks up the name of a named parameter anew for each row, which for the wide
# rows costs more than storing them; so there the values go by place.
_SQLITE = sqlite.dialect(paramstyle="qmark")
_POSTGRESQL = PGDialect_psycopg(paramstyle="pyformat")  # type: ignore[no-untyped-call]  # theirs

_INT64_MAX = 2**63 - 1

Driver: TypeAlias = sqlite3.Connection | psycopg.Connection[Any]
# What was asked inside a pipeline, to be fetched after it.
Answers: TypeAlias = Sequence[psycopg.Cursor[Any]]
Value = str | int | float | bytes | None
Values = Mapping[str, Value]

# What a driver raises at a value that it cannot bind. SQLite's raises nothing of its own at
# one; psycopg does at a NUL in text, and the server at an integer above 64 bits.
BINDING_ERRORS = (ValueError, OverflowError, TypeError, psycopg.DataError)
# What a driver raises at a row that the schema refuses: an id used twice, a sum below zero.
CONSTRAINT_ERRORS = (sqlite3.IntegrityError, psycopg.IntegrityError)


class Statement:
    """One compiled statement; every value in it is a named parameter."""

    def __init__(self, clause: ClauseElement) -> None:
        positional = _compiled(clause, _SQLITE)
        self._sqlite = str(positional)
        self._in_place = _in_place(positional)
        compiled = _compiled(clause, _POSTGRESQL)
        self._postgresql = str(compiled)
        self._many = ManyRows(self._postgresql, _types_in(compiled))

    def rows(self, driver: Driver, values: Values) -> list[Any]:
        """Return every row."""
        return self._execute(driver, values).fetchall()

    def row(self, driver: Driver, values: Values) -> Any:
        """Return the first row or None."""
        return self._execute(driver, values).fetchone()

    def run(self, driver: Driver, values: Values) -> int:
        """Return how many rows were changed."""
        return self._execute(driver, values).rowcount

    def run_many(self, driver: Driver, values: Iterable[Values]) -> None:
        """Run the statement once for each of `values`."""
        rows = tuple(values)
        try:
            if isinstance(driver, sqlite3.Connection):
                driver.executemany(self._sqlite, map(self._in_place, rows))
            elif rows:
                for batch in self._many.batches(rows):
                    driver.execute(self._many.sql, {"rows": batch})
        except BINDING_ERRORS as error:
            refuse(error, *rows)
            raise

    def run_each(self, driver: Driver, values: Iterable[Values]) -> None:
        """Run the statement once for each of `values`, which may hold bytes."""
        rows = tuple(values)
        if not rows:
            return
        try:
            if isinstance(driver, sqlite3.Connection):
                driver.executemany(self._sqlite, map(self._in_place, rows))
            else:
                driver.cursor().executemany(self._postgresql, rows)
        except BINDING_ERRORS as error:
            refuse(error, *rows)
            raise

    def rows_many(self, driver: Driver, values: Iterable[Values]) -> list[Any]:
        """Return every row for each of `values`, which must differ; in the order of their keys."""
        rows = tuple(values)
        if isinstance(driver, sqlite3.Connection):
            return [row for one in rows for row in self.rows(driver, one)]
        return fetched(self.asked(driver, rows))

    def asked(self, driver: psycopg.Connection[Any], rows: Sequence[Values]) -> Answers:
        """Ask for every row for each of `rows`, as `rows_many` does, but wait for nothing."""
        if not rows:
            return ()
        return [
            driver.execute(self._many.sql, {"rows": batch}) for batch in self._many.batches(rows)
        ]

    def _execute(self, driver: Driver, values: Values) -> sqlite3.Cursor | psycopg.Cursor[Any]:
        try:
            if isinstance(driver, sqlite3.Connection):
                return driver.execute(self._sqlite, self._in_place(values))
            return driver.execute(self._postgresql, values)
        except BINDING_ERRORS as error:
            refuse(error, values)
            raise


def fetched(answers: Answers) -> list[Any]:
    """Return every row of what was asked."""
    return [row for cursor in answers for row in cursor.fetchall()]


def refuse(error: Exception, *rows: Mapping[str, object]) -> None:
    """Raise the error that names the values at fault; return if it is none of theirs."""
    is_theirs = isinstance(error, psycopg.DataError)
    found = _unstorable(*rows, nul_is_text=not is_theirs)
    # A sum can leave 64 bits while every value in it is within them.
    if found.names or not is_theirs:
        raise found from error


def _unstorable(*rows: Mapping[str, object], nul_is_text: bool) -> UnstorableError:
    """Return the error that names which values of `rows` the driver could not bind."""
    names = {
        name: None
        for row in rows
        for name, value in row.items()
        if not _is_storable(value, nul_is_text=nul_is_text)
    }
    return UnstorableError(names=tuple(names))


def _compiled(clause: ClauseElement, dialect: Dialect) -> SQLCompiler:
    # Said to be for many, an INSERT does not ask for the number that the server gave the row.
    compiled = clause.compile(dialect=dialect, for_executemany=True)
    inlined = [name for name, value in compiled.params.items() if value is not None]
    assert not inlined, f"values would be lost: {inlined}"
    assert isinstance(compiled, SQLCompiler)
    return compiled


def _in_place(compiled: SQLCompiler) -> Callable[[Values], tuple[Value, ...]]:
    """Return what puts named values into the order of the statement's places."""
    names = compiled.positiontup or ()
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple([values[name] for name in names])


def _types_in(compiled: SQLCompiler) -> dict[str, str]:
    return {
        name: parameter.type.compile(compiled.dialect) for name, parameter in compiled.binds.items()
    }


def _is_storable(value: object, *, nul_is_text: bool) -> bool:
    match value:
        case int():
            return -_INT64_MAX - 1 <= value <= _INT64_MAX
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                return False
            return nul_is_text or "\0" not in value
        case _:
            return value is None or isinstance(value, float | bytes)
