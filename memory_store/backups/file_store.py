"""A store in files: one moment of it copied while it is in use, and what a copy is worth."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Column, Connection, inspect, select

from governor.ids import ArchiveId, TenantId
from memory_store import sqlite_engine
from memory_store.archive_files import ArchiveFiles
from memory_store.backups.manifest import STATE, Copied, Piece
from memory_store.backups.pieces import Told, copy_piece, hash_piece, untold
from memory_store.conservation import Conservation
from memory_store.engine import translated
from memory_store.errors import BackupError
from memory_store.experiences.tables import experience_blobs
from memory_store.schema import current_revision
from memory_store.tables import archives

_PAGES_AT_ONCE = 1_024
# How often the database is copied anew because contents went away behind it.
_ATTEMPTS_MAX = 5
_BUSY_TIMEOUT_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The names that a store in files has within its state directory."""

    database: str
    archive: str
    experiences: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file that a row names: its path within the state directory, and what is in it."""

    path: str
    sha256: str


def copy_files(state_dir: Path, draft: Path, places: Places, told: Told = untold) -> Copied:
    """Return what of `state_dir` now is in `draft`: the database, and each file that it names.

    A file is stored before its row and removed after it. So the database is copied first; if a
    file is gone by the time it is looked for, its row must be too, and the database is copied
    again. The files that are there are not copied twice: their names are never used twice.

    Raises:
        BackupError: there is no store, or contents go away faster than they can be copied.
        OSError: a disk refused.
    """
    database = state_dir / places.database
    if not database.is_file():
        message = f"{state_dir} holds no store yet: there is nothing to back up"
        raise BackupError(message)
    held, damaged = dict[str, Piece](), set[str]()
    for _ in range(_ATTEMPTS_MAX):
        copy = draft / STATE / places.database
        snapshot(database, copy, told)
        named, gone = contents_of(copy, places), set[str]()
        for content in named:
            path = f"{STATE}/{content.path}"
            if path in held:
                continue
            try:
                held[path] = copy_piece(state_dir / content.path, draft, path, told)
            except FileNotFoundError:
                gone.add(content.path)
            else:
                damaged |= {content.path} if held[path].sha256 != content.sha256 else set()
        # What a row still names and is not there was lost earlier; no copy brings it back.
        lost = {one.path for one in contents_of(database, places)} & gone if gone else gone
        if lost == gone:
            return _copied(draft, places, named, held, damaged | lost)
    message = "contents are removed faster than they can be copied; try again in a quieter hour"
    raise BackupError(message)


def _copied(
    draft: Path,
    places: Places,
    named: tuple[Content, ...],
    held: dict[str, Piece],
    damaged: set[str],
) -> Copied:
    """Return the copy without the files that an earlier attempt took and no row names now."""
    wanted = {f"{STATE}/{content.path}" for content in named}
    for path in held.keys() - wanted:
        (draft / path).unlink()
    database = hash_piece(draft, f"{STATE}/{places.database}")
    pieces = (database, *(held[path] for path in sorted(held.keys() & wanted)))
    still = {content.path for content in named}
    return Copied(
        revision=revision_of(draft / STATE / places.database),
        pieces=pieces,
        damaged=tuple(sorted(damaged & still)),
    )


def snapshot(database: Path, copy: Path, told: Told = untold) -> None:
    """Copy one moment of `database`, which others may be writing to, into a file of its own.

    Raises:
        BackupError: it cannot be read or copied.
    """
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy.unlink(missing_ok=True)
    copy.touch(mode=0o600)
    try:
        with closing(_opened(database)) as source, closing(sqlite3.connect(copy)) as target:
            # The moment is this one: with a transaction open on it, what is written meanwhile
            # neither is seen nor makes the copying start again.
            source.execute("BEGIN").close()
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            page_bytes = int(source.execute("PRAGMA page_size").fetchone()[0])
            before = 0

            def progress(_status: int, remaining: int, total: int) -> None:
                nonlocal before
                told((total - remaining - before) * page_bytes)
                before = total - remaining

            source.backup(target, pages=_PAGES_AT_ONCE, progress=progress)
            # One file: a copy has no log beside it that could be forgotten.
            target.execute("PRAGMA journal_mode = DELETE").close()
    except sqlite3.Error as error:
        message = f"{database} cannot be copied: {error}"
        raise BackupError(message) from error


def contents_of(database: Path, places: Places) -> tuple[Content, ...]:
    """Return the files that the rows of `database` name."""
    with _reading(database) as connection:
        return tuple(_contents(connection, places))


def revision_of(database: Path) -> str:
    """Return the revision of the schema.

    Raises:
        BackupError: it has none.
    """
    with _reading(database) as connection:
        revision = current_revision(connection)
    if revision is None:
        message = f"{database} is empty: there is nothing to back up"
        raise BackupError(message)
    return revision


def examine(database: Path) -> None:
    """Return if SQLite finds `database` sound, and the books in it add up.

    Raises:
        BackupError: they are not; it says what is wrong.
    """
    try:
        with closing(_opened(database)) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
            strays = connection.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.Error as error:
        found, strays = [str(error)], []
    if found != ["ok"] or strays:
        message = f"{database} is damaged: {'; '.join(found)}"
        raise BackupError(message)
    with _reading(database) as connection:
        breaches = Conservation().breaches(connection)
    if breaches:
        message = f"the books in {database} do not add up: {'; '.join(breaches)}"
        raise BackupError(message)


def _contents(connection: Connection, places: Places) -> Iterator[Content]:
    tables = set(inspect(connection).get_table_names())
    if archives.name in tables:
        columns = archives.c.tenant, archives.c.archive_id, archives.c.sha256
        yield from _rows(connection, places.archive, columns)
    # Older schemas have none.
    if experience_blobs.name in tables:
        blobs = experience_blobs.c.tenant, experience_blobs.c.name, experience_blobs.c.address
        yield from _rows(connection, places.experiences, blobs)


def _rows(
    connection: Connection, folder: str, tenant_name_hash: tuple[Column[str], ...]
) -> Iterator[Content]:
    files = ArchiveFiles(Path(folder))
    for row in connection.execute(select(*tenant_name_hash)):
        path = files.path(TenantId(row[0]), ArchiveId(row[1]))
        yield Content(path=path.as_posix(), sha256=row[2])


@contextmanager
def _reading(database: Path) -> Iterator[Connection]:
    engine = sqlite_engine.reading_engine(database)
    try:
        with translated(), engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _opened(database: Path) -> sqlite3.Connection:
    """Return a connection that only reads, and begins no transaction by itself."""
    address = f"file:{quote(os.fsencode(database))}?mode=ro"
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}").close()
    return connection
