"""What the store knows of either database under it: its promises, its errors."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, ExceptionContext, event
from sqlalchemy.exc import SQLAlchemyError

from memory_store.errors import StoreUnavailableError, UnstorableError
from memory_store.statement import BINDING_ERRORS, Driver, refuse

READERS_MAX = 4

_PASSING = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


class Durability(StrEnum):
    """What an acknowledged write survives: the death of the machine, or of the process."""

    POWER = "power"
    PROCESS = "process"


def driver_of(connection: Connection) -> Driver:
    """Return the driver's own connection under `connection`."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection | psycopg.Connection)
    return driver


def is_shared(connection: Connection) -> bool:
    """Tell whether other sidecars may write to the same database."""
    return connection.dialect.name == "postgresql"


def is_passing(error: BaseException) -> bool:
    """Tell whether the same transaction, begun again, may well be stored."""
    cause = error.__cause__ if isinstance(error, StoreUnavailableError) else error
    foreign = getattr(cause, "orig", None) or cause
    return isinstance(foreign, _PASSING)


def is_of_a_row(error: BaseException) -> bool:
    """Tell whether the database refused a row or a value, not the transaction."""
    cause = error.__cause__ if isinstance(error, StoreUnavailableError) else error
    return not isinstance(error, StoreUnavailableError) or isinstance(
        cause, psycopg.IntegrityError | psycopg.DataError
    )


def commit_then_sync(driver: psycopg.Connection[Any], durability: Durability) -> None:
    """Commit, and have it on the disk before the pipeline around this ends.

    COMMIT frees the locks before its record is on the disk; the next transaction, which
    is, waits for that of all before it. So the others' turns need not wait for the disk. Who
    builds on what is not on the disk yet is behind it in the log, and lost with it or not at all.
    """
    if durability is Durability.POWER:
        driver.execute("SET LOCAL synchronous_commit TO off")
    driver.execute("COMMIT")
    if durability is Durability.POWER:
        # A transaction must have written something for its COMMIT to wait.
        driver.execute("SELECT pg_logical_emit_message(true, 'flyball', '')")


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of the database into ours.

    Raises:
        StoreUnavailableError: the database refused or failed.
        UnstorableError: a value is not one that it can hold.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, psycopg.Error) as error:
        raise StoreUnavailableError from error
    except (UnicodeError, OverflowError) as error:
        # No driver can write half of a surrogate pair, nor SQLite's an integer above 64 bits.
        raise UnstorableError from error


def name_unstorable_values(engine: Engine) -> None:
    """Have `engine` raise the error that names a value which its driver could not bind."""

    def name_the_value(context: ExceptionContext) -> None:
        error = context.original_exception
        if isinstance(error, BINDING_ERRORS):
            execution = context.execution_context
            # Without it, the values were refused before there was anything to execute.
            refuse(error, *getattr(execution, "compiled_parameters", ()))

    event.listen(engine, "handle_error", name_the_value)
