"""A database whose encoding cannot hold every text, which is told before anything is written."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql_server import PostgresqlServer

from memory_store.errors import StoreUnavailableError
from memory_store.store import migrate_store

pytestmark = pytest.mark.slow


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def narrow(request: pytest.FixtureRequest, postgresql_server: PostgresqlServer) -> Iterator[str]:
    """Return the URL of a database of another encoding: SQL_ASCII is what initdb makes in C."""
    make = f"CREATE DATABASE narrow ENCODING '{request.param}' LOCALE 'C' TEMPLATE template0"
    postgresql_server.execute(make)
    yield postgresql_server.url("narrow")
    postgresql_server.execute("DROP DATABASE narrow WITH (FORCE)")


@pytest.mark.requirement("input.database-encoding")
def test_a_database_that_cannot_hold_every_text_is_refused_with_what_to_do(
    narrow: str, tmp_path: Path
) -> None:
    with pytest.raises(StoreUnavailableError, match="ENCODING 'UTF8'") as refused:
        migrate_store(tmp_path / "state", url=narrow)

    assert "s3cret-word" not in str(refused.value)
