from collections.abc import Iterator
from pathlib import Path

import anyio
import psycopg
import pytest
from contracts.builders import TENANT
from sqlalchemy import Engine, create_engine, inspect

from memory_store import schema
from memory_store.audit import Actor
from memory_store.errors import SchemaMismatchError, StoreUnavailableError
from memory_store.postgresql_engine import server_url
from memory_store.schema import current_revision, migrations_folder
from memory_store.store import migrate_store, open_store
from memory_store.tables import metadata

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

STEP = '''
"""One column more."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{down}"


def upgrade() -> None:
    op.add_column("tenants", sa.Column("{column}", sa.Text()))
'''
PRE, POST, LATER = "20991231_01", "20991231_02", "20991231_03"


def _revision(url: str) -> str | None:
    engine = create_engine(server_url(url))
    with engine.connect() as connection:
        found = current_revision(connection)
    engine.dispose()
    return found


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def _with_steps(to: Path, *steps: tuple[str, str]) -> Path:
    """Return a copy of the migrations with more: revisions and their phases."""
    versions = to / "versions"
    versions.mkdir(parents=True)
    for source in migrations_folder().rglob("*.py"):
        (to / source.relative_to(migrations_folder())).write_text(source.read_text())
    down = HEAD
    for revision, phase in steps:
        text = STEP.format(revision=revision, down=down, column=f"column_{revision[-2:]}")
        (versions / f"{revision}_{phase}_column.py").write_text(text)
        down = revision
    return to


HEAD = schema.steps_from(None, place="")[-1].revision


@pytest.fixture
def of_next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = _with_steps(tmp_path / "newer", (PRE, "pre"), (POST, "post"))
    monkeypatch.setattr(schema, "migrations_folder", lambda: newer)


@pytest.fixture
def engine(empty_database: str) -> Iterator[Engine]:
    engine = create_engine(server_url(empty_database))
    yield engine
    engine.dispose()


async def test_an_empty_database_is_given_the_tables(state_dir: Path, empty_database: str) -> None:
    async with open_store(state_dir, url=empty_database) as store:
        await store.check()

    assert _revision(empty_database) == HEAD


async def test_the_migrations_make_the_tables_that_the_code_uses_there_too(
    state_dir: Path, empty_database: str, engine: Engine
) -> None:
    migrate_store(state_dir, url=empty_database)

    found = inspect(engine)
    for table in metadata.sorted_tables:
        columns = {
            column["name"]: (str(column["type"]), column["nullable"])
            for column in found.get_columns(table.name)
        }
        assert columns == {
            column.name: (column.type.compile(engine.dialect), column.nullable)
            for column in table.columns
        }
        indexes = {index["name"] for index in found.get_indexes(table.name)}
        assert {index.name for index in table.indexes} <= indexes
        checks = {check["name"] for check in found.get_check_constraints(table.name)}
        assert len(checks) == sum(
            type(constraint).__name__ == "CheckConstraint" for constraint in table.constraints
        )


async def test_sidecars_that_start_together_make_the_tables_once(
    tmp_path: Path, empty_database: str
) -> None:
    async def start(name: str) -> None:
        await anyio.to_thread.run_sync(anyio.run, _open_once, tmp_path / name, empty_database)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for name in ("one", "two", "three"):
                group.start_soon(start, name)

    assert _revision(empty_database) == HEAD


async def _open_once(state_dir: Path, url: str) -> None:
    async with open_store(state_dir, url=url) as store:
        await store.check()


@pytest.mark.requirement("shared.migrated-on-command")
@pytest.mark.usefixtures("of_next_release")
async def test_an_older_database_is_refused_naming_the_command(
    state_dir: Path, database: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=r"run `flyball migrate`"):
        async with open_store(state_dir, url=database):
            pass

    assert _revision(database) == HEAD


async def test_a_newer_database_is_refused_with_what_to_do_there_too(
    state_dir: Path, database: str
) -> None:
    _execute(database, "UPDATE alembic_version SET version_num = '20991231_01'")

    with pytest.raises(SchemaMismatchError, match=r"20991231_01.*start the version that wrote it"):
        async with open_store(state_dir, url=database):
            pass


async def test_the_database_of_another_program_is_refused_there_too(
    state_dir: Path, empty_database: str
) -> None:
    _execute(empty_database, "CREATE TABLE recipes (name TEXT)")

    with pytest.raises(SchemaMismatchError, match="not Flyball's"):
        async with open_store(state_dir, url=empty_database):
            pass


@pytest.mark.requirement("shared.migrated-on-command")
@pytest.mark.usefixtures("of_next_release")
async def test_a_rollout_has_steps_before_it_and_after_it(state_dir: Path, database: str) -> None:
    looked = migrate_store(state_dir, url=database, only_look=True)
    before = migrate_store(state_dir, url=database)
    async with open_store(state_dir, url=database) as store:
        await store.tenants.create(TENANT, name="Acme", by=Actor(name="root"), now_ms=1)
    after = migrate_store(state_dir, url=database, with_post=True)

    assert ([step.revision for step in looked.pending], looked.can_start) == ([PRE, POST], False)
    assert ([step.revision for step in before.ran], before.can_start) == ([PRE], True)
    assert [step.revision for step in before.pending] == [POST]
    assert ([step.revision for step in after.ran], after.pending) == ([POST], ())
    assert _revision(database) == POST


async def test_what_follows_a_step_after_a_rollout_waits_for_it(
    state_dir: Path, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = ((PRE, "pre"), (POST, "post"), (LATER, "pre"))
    newer = _with_steps(tmp_path / "newer", *steps)
    monkeypatch.setattr(schema, "migrations_folder", lambda: newer)

    done = migrate_store(state_dir, url=database)

    assert [step.revision for step in done.ran] == [PRE]
    assert not done.can_start
    with pytest.raises(SchemaMismatchError, match="flyball migrate"):
        async with open_store(state_dir, url=database):
            pass


@pytest.mark.requirement("shared.password-unseen")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://flyball:s3cret-word@127.0.0.1:1/flyball",
        "postgresql://127.0.0.1:1/flyball?user=flyball&password=s3cret-word",
        "mysql://flyball:s3cret-word@127.0.0.1/flyball",
        "postgresql://flyball:s3cret-word@127.0.0.1:port/flyball",
        "flyball:s3cret-word",
    ],
)
async def test_a_server_that_cannot_be_used_is_named_without_the_password(
    state_dir: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(StoreUnavailableError) as refused:
        async with open_store(state_dir, url=url):
            pass

    told = "".join(_told(refused.value)) + caplog.text
    assert "s3cret-word" not in told
    assert "store" in str(refused.value)


def _told(error: BaseException | None) -> Iterator[str]:
    """Yield whatever a log could show of `error`."""
    while error is not None:
        yield f"{error} {error!r} {error.args}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
