import re
import sqlite3
import stat
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from contracts.builders import TENANT
from sqlalchemy import create_engine

from memory_store import schema
from memory_store.audit import Actor
from memory_store.errors import SchemaMismatchError, StoreUnavailableError
from memory_store.schema import backup_path, migrations_folder
from memory_store.store import DATABASE_NAME, open_store
from memory_store.tables import metadata

pytestmark = pytest.mark.anyio

NEXT_MIGRATION = '''
"""A column more."""

import sqlalchemy as sa
from alembic import op

revision = "20991231_01"
down_revision = "20261121_03"


def upgrade() -> None:
    op.add_column("tenants", sa.Column("motto", sa.Text()))
    if {fails}:
        raise RuntimeError
'''


def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    return ScriptDirectory.from_config(config)


def _definitions(database: sqlite3.Connection) -> dict[str, str]:
    rows = database.execute(
        "SELECT name, sql FROM sqlite_master "
        "WHERE sql IS NOT NULL AND name NOT IN ('alembic_version', 'sqlite_sequence')"
    )
    return {name: _in_any_order(sql) for name, sql in rows}


def _in_any_order(sql: str) -> str:
    # A column that was added later stands in its own place and is written on the line before.
    parts = re.split(r",\s*|\n\s*", sql.replace('"', ""))
    return "\n".join(sorted(part.strip() for part in parts if part.strip()))


def _query(database: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(database)
    try:
        with connection:
            return connection.execute(sql).fetchall()
    finally:
        connection.close()


def _place(state_dir: Path, content: bytes) -> None:
    """Put a database file there before the store does."""
    state_dir.mkdir()
    (state_dir / DATABASE_NAME).write_bytes(content)


def _names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _copy_migrations(to: Path, *, fails: bool = False) -> Path:
    """Return a copy of the migrations with one more."""
    versions = to / "versions"
    versions.mkdir(parents=True)
    for source in migrations_folder().glob("*.py"):
        (to / source.name).write_text(source.read_text())
    for source in (migrations_folder() / "versions").glob("*.py"):
        (versions / source.name).write_text(source.read_text())
    (versions / "20991231_01_pre_motto.py").write_text(NEXT_MIGRATION.format(fails=fails))
    return to


@pytest.mark.usefixtures("store")
async def test_the_migrations_make_the_tables_that_the_code_uses(state_dir: Path) -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        metadata.create_all(connection)
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        wanted = _definitions(driver)
    engine.dispose()

    made = sqlite3.connect(state_dir / DATABASE_NAME)
    found = _definitions(made)
    made.close()

    assert found == wanted


def test_the_migrations_have_one_head() -> None:
    assert len(_scripts().get_heads()) == 1


def test_each_migration_is_named_for_its_revision_and_phase() -> None:
    for script in _scripts().walk_revisions():
        name = Path(script.path).name
        assert name.startswith((f"{script.revision}_pre_", f"{script.revision}_post_"))


async def test_a_newer_database_is_refused_with_what_to_do(state_dir: Path) -> None:
    async with open_store(state_dir):
        pass
    _query(state_dir / DATABASE_NAME, "UPDATE alembic_version SET version_num = '20991231_01'")

    with pytest.raises(SchemaMismatchError, match=r"20991231_01.*start the version that wrote it"):
        async with open_store(state_dir):
            pass


async def test_a_database_of_another_program_is_refused(state_dir: Path) -> None:
    _place(state_dir, b"")
    _query(state_dir / DATABASE_NAME, "CREATE TABLE recipes (name TEXT)")

    with pytest.raises(SchemaMismatchError, match="choose another state directory"):
        async with open_store(state_dir):
            pass

    assert _query(state_dir / DATABASE_NAME, "SELECT count(*) FROM recipes") == [(0,)]


async def test_a_file_that_is_no_database_is_refused(state_dir: Path) -> None:
    _place(state_dir, b"dear diary, " * 100)

    with pytest.raises(StoreUnavailableError):
        async with open_store(state_dir):
            pass


async def test_an_older_database_is_backed_up_and_migrated(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(state_dir) as store:
        await store.tenants.create(TENANT, name="Acme", by=Actor(name="root"), now_ms=1)
    newer = _copy_migrations(tmp_path / "100% newer")
    monkeypatch.setattr(schema, "migrations_folder", lambda: newer)

    async with open_store(state_dir):
        pass

    database = state_dir / DATABASE_NAME
    backup = backup_path(database, "20261121_03")
    assert "20261121_03" in backup.name
    assert _mode(backup) == 0o600
    assert _query(backup, "SELECT tenant_id FROM tenants") == [(TENANT,)]
    assert _query(backup, "SELECT version_num FROM alembic_version") == [("20261121_03",)]
    assert _query(database, "SELECT tenant_id, motto FROM tenants") == [(TENANT, None)]
    assert _query(database, "SELECT version_num FROM alembic_version") == [("20991231_01",)]


async def test_a_migration_that_fails_leaves_the_database_as_it_was(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(state_dir):
        pass
    failing = _copy_migrations(tmp_path / "newer", fails=True)
    monkeypatch.setattr(schema, "migrations_folder", lambda: failing)

    with pytest.raises(RuntimeError):
        async with open_store(state_dir):
            pass

    database = state_dir / DATABASE_NAME
    assert _query(database, "SELECT version_num FROM alembic_version") == [("20261121_03",)]
    monkeypatch.undo()
    async with open_store(state_dir) as store:
        await store.check()


async def test_a_database_that_is_up_to_date_is_not_backed_up(state_dir: Path) -> None:
    for _ in range(2):
        async with open_store(state_dir):
            pass

    assert not [name for name in _names_in(state_dir) if ".before-" in name]


def test_the_packaged_migrations_come_before_those_of_a_checkout(tmp_path: Path) -> None:
    packaged, checkout = tmp_path / "_migrations", tmp_path / "migrations"
    checkout.mkdir()
    (checkout / "env.py").touch()

    assert migrations_folder((packaged, checkout)) == checkout
    packaged.mkdir()
    (packaged / "env.py").touch()
    assert migrations_folder((packaged, checkout)) == packaged


def test_missing_migrations_are_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match="reinstall"):
        migrations_folder((tmp_path / "none",))


@pytest.mark.usefixtures("store")
async def test_the_state_is_for_its_owner_only(state_dir: Path) -> None:
    names = _names_in(state_dir)

    assert _mode(state_dir) == 0o700
    assert DATABASE_NAME in names
    assert {_mode(state_dir / name) for name in names} == {0o600}
