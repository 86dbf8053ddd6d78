"""The schema of a database file: brought up to date by the one sidecar that has it."""

import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine

from memory_store.engine import driver_of, translated
from memory_store.schema import Migrated, current_revision, run_steps, steps_from


def pending(engine: Engine, database: Path) -> Migrated:
    """Return what `upgrade` would run.

    Raises:
        SchemaMismatchError: a newer or another program made it.
    """
    with translated(), engine.connect() as connection:
        current = _current(connection)
    steps = steps_from(current, place=str(database))
    return Migrated(before=current, ran=(), pending=steps)


def upgrade(engine: Engine, database: Path) -> Migrated:
    """Bring `database` to the present revision; an older one is copied aside before.

    No older version can be running on it, so what waits for that runs too.

    Raises:
        SchemaMismatchError: a newer or another program made it.
    """
    with translated(), engine.connect() as connection:
        current = _current(connection)
        steps = steps_from(current, place=str(database))
        if steps and current is not None:
            _back_up(connection, database, current)
        with connection.begin():
            run_steps(connection, steps)
    return Migrated(before=current, ran=steps, pending=())


def backup_path(database: Path, revision: str) -> Path:
    """Return where the copy of `database` is kept that was made before it left `revision`."""
    return database.with_name(f"{database.stem}.before-{revision}{database.suffix}")


def _current(connection: Connection) -> str | None:
    with connection.begin():
        return current_revision(connection)


def _back_up(connection: Connection, database: Path, revision: str) -> None:
    """Copy the database aside, whole or not at all."""
    driver = driver_of(connection)
    assert isinstance(driver, sqlite3.Connection), "a server's database has no file to copy"
    target = backup_path(database, revision)
    temporary = target.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    copy = sqlite3.connect(temporary)
    try:
        driver.backup(copy)
    finally:
        copy.close()
    temporary.replace(target)
