"""Connections to the database file and the translation of its errors."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

import psycopg
from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool, StaticPool

from memory_store.errors import StoreUnavailableError, UnstorableError
from memory_store.statement import BINDING_ERRORS, Driver, unstorable

READERS_MAX = 4
_BUSY_TIMEOUT_MS = 5_000


class Durability(StrEnum):
    """What an acknowledged write survives: the death of the machine, or of the process."""

    POWER = "power"
    PROCESS = "process"


_SYNCHRONOUS = {Durability.POWER: "FULL", Durability.PROCESS: "NORMAL"}


def writing_engine(database: Path, durability: Durability) -> Engine:
    """Return the engine with the one connection that may write."""
    engine = create_engine(
        _url(database, mode="rwc"),
        poolclass=StaticPool,
        connect_args={"check_same_thread": False},
    )
    pragmas = (
        f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}",
        "PRAGMA journal_mode = WAL",
        f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}",
        "PRAGMA foreign_keys = ON",
    )
    # IMMEDIATE, so that a transaction never fails half-way because it must first become
    # a writing one.
    _configure(engine, pragmas=pragmas, begin="BEGIN IMMEDIATE")
    return engine


def reading_engine(database: Path) -> Engine:
    """Return the engine with the few connections that may only read."""
    engine = create_engine(
        _url(database, mode="ro"),
        poolclass=QueuePool,
        pool_size=READERS_MAX,
        max_overflow=0,
        connect_args={"check_same_thread": False},
    )
    pragmas = (f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}", "PRAGMA query_only = ON")
    _configure(engine, pragmas=pragmas, begin="BEGIN")
    return engine


def driver_of(connection: Connection) -> Driver:
    """Return the driver's own connection under `connection`."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection | psycopg.Connection)
    return driver


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of the database into ours.

    Raises:
        StoreUnavailableError: the database refused or failed.
        UnstorableError: a value is not one that it can hold.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise StoreUnavailableError from error
    except (UnicodeError, OverflowError) as error:
        # The driver cannot write half of a surrogate pair, nor an integer above 64 bits.
        raise UnstorableError from error


def _url(database: Path, *, mode: str) -> str:
    # Bytes, because a path need not be text.
    return f"sqlite+pysqlite:///file:{quote(os.fsencode(database))}?mode={mode}&uri=true"


def _configure(engine: Engine, *, pragmas: tuple[str, ...], begin: str) -> None:
    def connect(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
        # The driver would begin transactions by itself, and late; we say BEGIN.
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(pragma).close()

    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    def name_the_value(context: ExceptionContext) -> None:
        if isinstance(context.original_exception, BINDING_ERRORS):
            execution = context.execution_context
            # Without it, the values were refused before there was anything to execute.
            raise unstorable(*getattr(execution, "compiled_parameters", ()))

    event.listen(engine, "connect", connect)
    event.listen(engine, "handle_error", name_the_value)
    event.listen(engine, "begin", begin_transaction)
