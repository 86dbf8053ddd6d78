"""Connections to the database file of one sidecar."""

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool, StaticPool

from memory_store.engine import READERS_MAX, Durability, name_unstorable_values

_BUSY_TIMEOUT_MS = 5_000
# How long the log grows before its pages are copied into the file: 16 MB rather than SQLite's 4,
# because most pages that the ledger changes are changed again soon, and are copied once then.
_CHECKPOINT_PAGES = 4_000
_SYNCHRONOUS = {Durability.POWER: "FULL", Durability.PROCESS: "NORMAL"}


def writing_engine(database: Path, durability: Durability) -> Engine:
    """Return the engine with the one connection that may write."""
    engine = create_engine(
        _url(database, mode="rwc"),
        poolclass=StaticPool,
        connect_args={"check_same_thread": False},
        hide_parameters=True,
    )
    pragmas = (
        f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}",
        "PRAGMA journal_mode = WAL",
        f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}",
        f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}",
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
        hide_parameters=True,
    )
    pragmas = (f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}", "PRAGMA query_only = ON")
    _configure(engine, pragmas=pragmas, begin="BEGIN")
    return engine


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
        # The driver itself: through SQLAlchemy this one word costs more than a batch of work.
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.execute(begin).close()

    event.listen(engine, "connect", connect)
    event.listen(engine, "begin", begin_transaction)
    name_unstorable_values(engine)
