"""What every suite shares: the async backend, a database server, how hypothesis reports."""

from collections.abc import Iterator
from pathlib import Path

import one_thread  # noqa: F401  # before whatever loads numpy
import pytest
from begun import begin
from drawn import SEED, VARIABLE
from hypothesis import HealthCheck, settings
from postgresql_server import PostgresqlServer, running_server

from memory_store.store import DATABASE_NAME, migrate_store

# A deadline per example would measure the machine; pytest-timeout bounds the whole test.
settings.register_profile(
    "house", print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", settings.get_profile("house"), max_examples=2_000)
settings.load_profile("house")


@pytest.fixture
def anyio_backend() -> str:
    """Run `@pytest.mark.anyio` tests on asyncio, the one backend of the house."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """Start the server at the first test that asks for one."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_model(
    postgresql_server: PostgresqlServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Return the name of a database with the present schema: copied faster than made."""
    with postgresql_server.database() as url:
        migrate_store(tmp_path_factory.mktemp("model"), url=url)
        yield postgresql_server.name_in(url)


@pytest.fixture(scope="session")
def sqlite_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database file with the present schema: copied faster than made."""
    state_dir = tmp_path_factory.mktemp("model") / "state"
    migrate_store(state_dir)
    return state_dir / DATABASE_NAME


@pytest.fixture
def begun_state(tmp_path: Path, sqlite_model: Path) -> Path:
    """Return the state directory `tmp_path / "state"`, its database of the present schema."""
    state_dir = tmp_path / "state"
    begin(state_dir, sqlite_model)
    return state_dir


@pytest.fixture
def empty_database(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """Return the URL of a database with nothing in it."""
    with postgresql_server.database() as url:
        yield url


@pytest.fixture
def database(postgresql_server: PostgresqlServer, postgresql_model: str) -> Iterator[str]:
    """Return the URL of a database with the present schema."""
    with postgresql_server.database(like=postgresql_model) as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store_url(request: pytest.FixtureRequest) -> str | None:
    """Return where a store is: None in its state directory, else at this server."""
    if request.param == "sqlite":
        return None
    url: str = request.getfixturevalue("database")
    return url


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose hypothesis's seed here, so that it is the one of all tests and can be named."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = SEED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how to draw the same again."""
    terminalreporter.write_line(
        f"drawn: {VARIABLE}={SEED} --hypothesis-seed={config.option.hypothesis_seed}"
    )
