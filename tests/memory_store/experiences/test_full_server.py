"""Experiences on a PostgreSQL whose disk is full: nothing lost, nothing half, and it goes on."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import psycopg
import pytest
from postgresql_server import PostgresqlServer

from memory_store.engine import Durability
from memory_store.errors import StoreUnavailableError
from memory_store.store import Store, open_store
from tests.memory_store.experiences.makers import ACME, draft, ids, space_of, wrote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

DISK_BYTES = 64 * 1024 * 1024
# What is left on it for what is written until it is full.
ROOM_BYTES = 512 * 1024
CONTENT = os.urandom(3_000)
WRITES_MAX = 1_000


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Yield a folder on a disk of its own, which only root can have made."""
    folder.mkdir()
    size = f"size={DISK_BYTES}"
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"{size},mode=777", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no disk can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def on_disk(server: PostgresqlServer, model: str, disk: Path) -> Iterator[str]:
    """Yield the URL of a database whose tables are on that disk; its log is not."""
    # Whoever the server runs as owns what it is given.
    owner = (server.folder / "cluster").stat()
    place = disk / "tables"
    place.mkdir()
    os.chown(place, owner.st_uid, owner.st_gid)
    name = f"full_{os.getpid()}"
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE {name} LOCATION '{place}'".encode())
        try:
            made = f"CREATE DATABASE {name} TEMPLATE {model} TABLESPACE {name}"
            connection.execute(made.encode())
            try:
                yield server.url(name)
            finally:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        finally:
            connection.execute(f"DROP TABLESPACE {name}".encode())


def filled(disk: Path) -> Path:
    """Return the file that leaves little room on a disk."""
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - ROOM_BYTES))
    return ballast


async def stored_until_refused(store: Store, space: str) -> int:
    """Return how many were stored before one was refused."""
    for number in range(WRITES_MAX):
        try:
            await wrote(store, draft(f"n{number}", space, content=CONTENT + str(number).encode()))
        except StoreUnavailableError:
            return number
    return WRITES_MAX


@pytest.mark.requirement("memory.full-disk")
async def test_a_server_with_a_full_disk_refuses_loses_nothing_and_goes_on(
    postgresql_server: PostgresqlServer, postgresql_model: str
) -> None:
    with (
        anyio.fail_after(120),
        small_disk(postgresql_server.folder / f"disk{os.getpid()}") as disk,
        on_disk(postgresql_server, postgresql_model, disk) as url,
    ):
        state = disk / "state"
        async with open_store(state, url=url, durability=Durability.PROCESS) as store:
            space = await space_of(store)
            await wrote(store, draft("first", space))
            ballast = filled(disk)

            stored = await stored_until_refused(store, space)
            full = await store.upkeep.check.look(ACME)
            there = await store.experiences.content(ids("first")[0], tenant=ACME)
            ballast.unlink()
            await wrote(store, draft("after", space))
            after = await store.upkeep.check.look(ACME)

    assert 0 < stored < WRITES_MAX
    assert there.content
    assert (full.experiences, full.problems) == (stored + 1, ())
    assert (after.experiences, after.problems) == (stored + 2, ())
