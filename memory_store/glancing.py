"""A look at a store that may be in use, changing nothing, and at where it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from memory_store import postgresql_engine, sqlite_engine
from memory_store.engine import translated
from memory_store.glance import Found, Names, look_up
from memory_store.postgresql_engine import server_url
from memory_store.schema import Migrated, current_revision, steps_from
from memory_store.store import DATABASE_NAME


def glance_at_store(state_dir: Path, names: Names, *, url: str | None) -> Found | None:
    """Return what a store holds that may be in use; None where there is none yet.

    Raises:
        StoreUnavailableError: it cannot be read; an older schema may be why.
    """
    if not _is_there(state_dir, url=url):
        return None
    with _looking(state_dir, url=url) as connection:
        return look_up(connection, names)


def glance_at_schema(state_dir: Path, *, url: str | None) -> Migrated | None:
    """Return how the schema of a store is; None where there is none yet.

    Raises:
        SchemaMismatchError: a newer or another program made the database.
        StoreUnavailableError: it cannot be read.
    """
    if not _is_there(state_dir, url=url):
        return None
    with _looking(state_dir, url=url) as connection:
        before = current_revision(connection)
    pending = steps_from(before, place=place_of_store(state_dir, url=url))
    return Migrated(before=before, ran=(), pending=pending)


def place_of_store(state_dir: Path, *, url: str | None) -> str:
    """Return where a store is, in words that name no password.

    Raises:
        StoreUnavailableError: the URL cannot be read.
    """
    if url is None:
        return f"the SQLite file {state_dir / DATABASE_NAME}"
    return postgresql_engine.place_of(server_url(url))


def _is_there(state_dir: Path, *, url: str | None) -> bool:
    return url is not None or (state_dir / DATABASE_NAME).exists()


@contextmanager
def _looking(state_dir: Path, *, url: str | None) -> Iterator[Connection]:
    engine = (
        sqlite_engine.reading_engine(state_dir / DATABASE_NAME)
        if url is None
        else postgresql_engine.reading_engine(server_url(url))
    )
    try:
        with translated(), engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()
