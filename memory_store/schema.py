"""The schema's version: made, brought up to date, or refused at start."""

import sqlite3
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, inspect

from memory_store.engine import driver_of, translated
from memory_store.errors import SchemaMismatchError

_PACKAGE = Path(__file__).parent
# An installed wheel has the first, a checkout the second.
_PLACES = (_PACKAGE / "_migrations", _PACKAGE.parent / "migrations")


def upgrade(engine: Engine, database: Path) -> None:
    """Bring `database` to the present revision; an older one is copied aside before.

    Raises:
        SchemaMismatchError: a newer or another program made it.
    """
    scripts = ScriptDirectory.from_config(_config())
    head = scripts.get_current_head()
    assert head is not None, "no migrations are packaged"
    with translated(), engine.connect() as connection:
        current = _current(connection)
        if current == head:
            return
        if current is not None:
            _check_known(scripts, current, database)
            _back_up(connection, database, current)
        with connection.begin():
            command.upgrade(_config(connection), head)


def migrations_folder(places: tuple[Path, ...] = _PLACES) -> Path:
    """Return the folder with the migrations."""
    for place in places:
        if (place / "env.py").is_file():
            return place
    message = f"no migrations in {' or '.join(str(place) for place in places)}; reinstall Flyball"
    raise SchemaMismatchError(message)


def backup_path(database: Path, revision: str) -> Path:
    """Return where the copy of `database` is kept that was made before it left `revision`."""
    return database.with_name(f"{database.stem}.before-{revision}{database.suffix}")


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    # Alembic's options are interpolated: a percent sign in a path must be doubled.
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    if connection is not None:
        config.attributes["connection"] = connection
    return config


def _current(connection: Connection) -> str | None:
    """Return the revision of the database, None if it is empty."""
    with connection.begin():
        heads = MigrationContext.configure(connection).get_current_heads()
        if not heads and inspect(connection).get_table_names():
            message = (
                "the database has tables but no revision, so it is not Flyball's; "
                "choose another state directory"
            )
            raise SchemaMismatchError(message)
    return heads[0] if heads else None


def _check_known(scripts: ScriptDirectory, revision: str, database: Path) -> None:
    try:
        scripts.get_revision(revision)
    except CommandError as error:
        message = (
            f"the database {database} is at revision {revision}, which this version of Flyball "
            f"does not know (it knows up to {scripts.get_current_head()}); start the version "
            "that wrote it, or restore the backup made before that version's upgrade"
        )
        raise SchemaMismatchError(message) from error


def _back_up(connection: Connection, database: Path, revision: str) -> None:
    """Copy the database aside, whole or not at all."""
    target = backup_path(database, revision)
    temporary = target.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    driver = driver_of(connection)
    assert isinstance(driver, sqlite3.Connection), "a server's database has no file to copy"
    copy = sqlite3.connect(temporary)
    try:
        driver.backup(copy)
    finally:
        copy.close()
    temporary.replace(target)
