"""What holds of a store at every moment, whoever was killed at whichever point."""

import hashlib
from collections import Counter
from pathlib import Path

from sqlalchemy import Connection, func, select, text

from memory_store.archive_files import ArchiveFiles
from memory_store.conservation import Conservation
from memory_store.store import ARCHIVE_NAME, Store
from memory_store.tables import archive_totals, archives, calls, reservations


def files_of(state_dir: Path) -> set[Path]:
    return {path for path in (state_dir / ARCHIVE_NAME).rglob("*") if path.is_file()}


async def entry_files(store: Store, state_dir: Path) -> set[Path]:
    """Return the files that the rows name."""
    rows = await store.reader.run(lambda connection: connection.execute(select(archives)).all())
    files = ArchiveFiles(state_dir / ARCHIVE_NAME)
    return {files.path(row.tenant, row.archive_id) for row in rows}


async def check_consistent(store: Store, state_dir: Path, *, bytes_max: int) -> None:
    await store.reader.run(_check_books)
    await store.reader.run(lambda connection: _check_archive(connection, state_dir, bytes_max))


def _check_books(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        assert connection.execute(text("PRAGMA foreign_key_check")).all() == []
    assert Conservation().breaches(connection) == []
    without_record = (
        select(func.count())
        .select_from(reservations)
        .outerjoin(calls, calls.c.call_id == reservations.c.call_id)
        .where(
            reservations.c.ended_at_ms.is_not(None),
            reservations.c.kind != "sub_session",
            calls.c.call_id.is_(None),
        )
    )
    assert connection.execute(without_record).scalar() == 0


def _check_archive(connection: Connection, state_dir: Path, bytes_max: int) -> None:
    files = ArchiveFiles(state_dir / ARCHIVE_NAME)
    sizes: Counter[str] = Counter()
    for row in connection.execute(select(archives)):
        content = files.path(row.tenant, row.archive_id).read_bytes()
        assert len(content) == row.size_bytes
        assert hashlib.sha256(content).hexdigest() == row.sha256
        sizes[row.tenant] += row.size_bytes
    totals = {row.tenant: row.total_bytes for row in connection.execute(select(archive_totals))}
    assert {tenant: total for tenant, total in totals.items() if total} == +sizes
    assert all(total <= bytes_max for total in totals.values())
