"""A store on a server: one moment of its tables copied out, and put into an empty database.

It is a copy of rows, not of the server's files: any later version of PostgreSQL takes it, and
no program beside this one is needed. What is derived (the index of words, pgvector's) is left
out and made anew where the rows are put.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection, Engine, MetaData, inspect, text

from memory_store import postgresql_engine, postgresql_schema
from memory_store.advisory import Duty, take_turn
from memory_store.backups.manifest import TABLES, Copied, Manifest, Piece
from memory_store.backups.pieces import Told, untold, write_piece
from memory_store.conservation import Conservation
from memory_store.engine import Durability, driver_of, translated
from memory_store.errors import BackupError, StoreUnavailableError
from memory_store.schema import current_revision

_CHUNK_BYTES = 1024 * 1024
_DERIVED = ("alembic_version", "experience_words", "experience_nearness")
_SEQUENCES = """
SELECT c.table_name, c.column_name,
       pg_get_serial_sequence(quote_ident(c.table_name), c.column_name)
FROM information_schema.columns c
WHERE c.table_schema = current_schema()
  AND pg_get_serial_sequence(quote_ident(c.table_name), c.column_name) IS NOT NULL
"""
_LAST = """
SELECT last_value FROM pg_sequences
WHERE format('%%I.%%I', schemaname, sequencename)::regclass = %s::regclass
"""
_FORGET = text("SELECT pg_stat_clear_snapshot()")
_WAIT = text("SELECT pg_sleep(0.2)")
# A server needs a moment to see that a process which was killed is gone.
_LOOKS_MAX = 25
_OTHERS = text("""
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'flyball' AND pid <> pg_backend_pid()
""")
# What an extension brought is its own.
_FUNCTIONS = text("""
SELECT p.oid::regprocedure::text FROM pg_proc p
WHERE p.pronamespace = current_schema()::regnamespace
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
""")


def copy_server(url: str, draft: Path, told: Told = untold) -> Copied:
    """Return what of the store at `url` now is in `draft`.

    Raises:
        BackupError: there is no store.
        StoreUnavailableError: the server cannot be read.
        OSError: the disk refused.
    """
    with _transaction(url, reads=True) as connection:
        revision = current_revision(connection)
        if revision is None:
            message = "the database is empty: there is nothing to back up"
            raise BackupError(message)
        driver = _driver(connection)
        pieces, rows = list[Piece](), dict[str, int]()
        for table, columns in _columns(connection).items():
            with driver.cursor() as cursor:
                blocks = _copied_out(cursor, table, columns)
                pieces.append(write_piece(blocks, draft, f"{TABLES}/{table}.copy", told))
                rows[table] = cursor.rowcount
        # Read last: a number that was given meanwhile is not given again.
        sequences = {key: _last(driver, name) for key, name in _sequences(driver).items()}
    return Copied(revision=revision, pieces=tuple(pieces), rows=rows, sequences=sequences)


def _copied_out(cursor: psycopg.Cursor[Any], table: str, columns: Sequence[str]) -> Iterator[bytes]:
    with cursor.copy(_statement("COPY {} ({}) TO STDOUT", table, columns)) as copying:
        for block in copying:
            yield bytes(block)


def fill_server(
    url: str, backup: Path, manifest: Manifest, *, replaces: bool, told: Told = untold
) -> None:
    """Make the database at `url` what was backed up, in one transaction: all of it or nothing.

    Raises:
        BackupError: it is not empty, is in use, or what was put there does not add up.
        SchemaMismatchError: this version does not know the schema.
        StoreUnavailableError: the server refused.
        OSError: the disk refused.
    """
    with _transaction(url, reads=False) as connection:
        take_turn(connection, Duty.SCHEMA)
        _make_room(connection, replaces=replaces)
        postgresql_schema.make_at(connection, manifest.revision)
        columns, driver = _columns(connection), _driver(connection)
        for table in _in_order(connection):
            if table in manifest.rows:
                count = _copied_in(driver, table, columns[table], backup, told)
                if count != manifest.rows[table]:
                    message = f"{table}: {count} rows were put back of {manifest.rows[table]}"
                    raise BackupError(message)
        known = _sequences(driver)
        for key, last in manifest.sequences.items():
            if last:  # one that gave no number yet begins as it is
                driver.execute("SELECT setval(%s, %s, true)", (known[key], last))
        breaches = Conservation().breaches(connection)
        if breaches:
            message = f"the books in the backup do not add up: {'; '.join(breaches)}"
            raise BackupError(message)


def _make_room(connection: Connection, *, replaces: bool) -> None:
    """Return when the database is empty."""
    _have_it_alone(connection)
    if current_revision(connection) is None:
        return
    if not replaces:
        message = (
            "the database holds a store already; make a backup of it, then add --force to have "
            "it replaced, or name an empty database"
        )
        raise BackupError(message)
    driver = _driver(connection)
    for table in inspect(connection).get_table_names():
        driver.execute(sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(sql.Identifier(table)))
    for function in connection.scalars(_FUNCTIONS).all():
        # Its signature as the server wrote it, quoted where that is needed.
        driver.execute(f"DROP FUNCTION IF EXISTS {function} CASCADE".encode())


def _have_it_alone(connection: Connection) -> None:
    for _ in range(_LOOKS_MAX):
        if not connection.execute(_OTHERS).scalar_one():
            return
        connection.execute(_WAIT)
        connection.execute(_FORGET)
    message = "the database is in use by a sidecar; stop every sidecar on it first"
    raise BackupError(message)


def _copied_in(
    driver: psycopg.Connection[Any],
    table: str,
    columns: Sequence[str],
    backup: Path,
    told: Told,
) -> int:
    with driver.cursor() as cursor, (backup / TABLES / f"{table}.copy").open("rb") as file:
        with cursor.copy(_statement("COPY {} ({}) FROM STDIN", table, columns)) as copying:
            while block := file.read(_CHUNK_BYTES):
                copying.write(block)
                told(len(block))
        return cursor.rowcount


def _columns(connection: Connection) -> dict[str, tuple[str, ...]]:
    """Return the columns of each table, in an order of their own: it is the same everywhere."""
    inspector = inspect(connection)
    return {
        table: tuple(sorted(column["name"] for column in inspector.get_columns(table)))
        for table in sorted(inspector.get_table_names())
        if not table.startswith(_DERIVED)
    }


def _in_order(connection: Connection) -> list[str]:
    """Return the tables, each after those that it refers to."""
    metadata = MetaData()
    metadata.reflect(connection)
    return [table.name for table in metadata.sorted_tables]


def _sequences(driver: psycopg.Connection[Any]) -> dict[str, str]:
    rows = driver.execute(_SEQUENCES).fetchall()
    return {f"{table}.{column}": name for table, column, name in rows}


def _last(driver: psycopg.Connection[Any], sequence: str) -> int:
    row = driver.execute(_LAST, (sequence,)).fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


def _statement(words: str, table: str, columns: Sequence[str]) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL(words).format(sql.Identifier(table), names)


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = driver_of(connection)
    assert isinstance(driver, psycopg.Connection)
    return driver


@contextmanager
def _transaction(address: str, *, reads: bool) -> Iterator[Connection]:
    """Yield a transaction that may last: a read one sees one moment."""
    url = postgresql_engine.server_url(address)
    engine: Engine = (
        postgresql_engine.reading_engine(url)
        if reads
        else postgresql_engine.writing_engine(url, Durability.POWER)
    )
    try:
        try:
            with translated(), engine.connect():
                """It answers."""
        except StoreUnavailableError as error:
            raise postgresql_engine.unreachable(url, error) from None
        with translated(), engine.begin() as connection:
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            yield connection
    finally:
        engine.dispose()
