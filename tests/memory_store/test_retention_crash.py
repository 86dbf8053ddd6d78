"""Killed between row and file, or anywhere: the store is whole, and the purge clears the rest."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from memory_store.engine import Durability
from memory_store.store import open_store
from tests.memory_store.consistency import check_consistent, entry_files, files_of

ROOT = Path(__file__).parents[2]
BYTES_MAX = 2_000
FAR_MS = 2**50

PRELUDE = """
import os
import signal
import sys
from pathlib import Path

import anyio

from contracts.builders import AGENT, COST, SESSION, TENANT, budget, record, request, used
from governor.ids import CallId
from memory_store.archive import Archive
from memory_store.archive_files import ArchiveFiles
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.store import open_store


def die(*_arguments, **_named):
    os.kill(os.getpid(), signal.SIGKILL)


async def put(store, size_bytes, now_ms):
    await store.archive.put(
        b"x" * size_bytes, tenant=TENANT, agent=AGENT, session=SESSION,
        call_id=CallId("call_1"), media_type="text/plain", now_ms=now_ms,
    )


async def main():
    async with open_store(
        Path(sys.argv[1]), durability=Durability.PROCESS, archive_bytes_max_per_tenant=2_000
    ) as store:
        await story(store)
"""

# Each dies at its point, after one entry was stored that fills the quota.
POINTS = {
    "between_file_and_row_of_a_put": """
async def story(store):
    await put(store, 2_000, 1)
    Archive._place = die
    await put(store, 10, 2)
""",
    "between_row_and_file_of_an_eviction": """
async def story(store):
    await put(store, 2_000, 1)
    ArchiveFiles.remove = die
    await put(store, 10, 2)
""",
    "between_row_and_file_of_a_purge": """
async def story(store):
    await put(store, 2_000, 1)
    ArchiveFiles.remove = die
    await store.retention.purge(before_ms=2, now_ms=0)
""",
    "in_the_middle_of_a_write": """
async def story(store):
    await put(store, 2_000, 1)
    os.fsync = die
    await put(store, 10, 2)
""",
}
ENTRIES_LEFT = {
    "between_file_and_row_of_a_put": 1,
    "between_row_and_file_of_an_eviction": 1,
    "between_row_and_file_of_a_purge": 0,
    "in_the_middle_of_a_write": 1,
}

# Works without pause and says so after each round.
TRAFFIC = """
async def story(store):
    await store.tenants.create(TENANT, name="Acme", by=Actor(name="root"), now_ms=1)
    await store.budgets.create(budget({COST: 10**9}), by=Actor(name="root"), now_ms=1)
    now_ms = 0

    async def client():
        nonlocal now_ms
        while True:
            now_ms += 1
            asked = request({COST: 3}, turn=f"t{now_ms}", now_ms=now_ms)
            await store.ledger.admit(asked)
            usage = used({COST: 5})
            await store.ledger.settle(
                asked.reservation_id, usage, record(asked, ended_at_ms=now_ms, usage=usage)
            )
            await put(store, 100 + now_ms % 300, now_ms)
            print(now_ms, flush=True)

    async def purge():
        while True:
            await store.retention.purge(before_ms=now_ms - 20, now_ms=2**50)

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(client)
        group.start_soon(purge)
"""

pytestmark = pytest.mark.anyio


def _killed(state_dir: Path, story: str, *, after_lines: int) -> int:
    """Run `story` until it kills itself, or until it said so many lines; return its end."""
    with subprocess.Popen(
        [sys.executable, "-c", f"{PRELUDE}\n{story}\nanyio.run(main)", str(state_dir)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
    ) as child:
        assert child.stdout is not None
        for _ in range(after_lines):
            assert child.stdout.readline()
        if after_lines:
            child.send_signal(signal.SIGKILL)
        child.stdout.read()
    return child.returncode


@pytest.mark.parametrize("point", list(POINTS))
async def test_a_crash_between_row_and_file_leaves_at_most_an_orphan(
    state_dir: Path, point: str
) -> None:
    end = await anyio.to_thread.run_sync(lambda: _killed(state_dir, POINTS[point], after_lines=0))

    assert end == -signal.SIGKILL
    async with open_store(state_dir, archive_bytes_max_per_tenant=BYTES_MAX) as store:
        await check_consistent(store, state_dir, bytes_max=BYTES_MAX)
        named = await entry_files(store, state_dir)
        assert len(named) == ENTRIES_LEFT[point]
        assert len(files_of(state_dir) - named) == 1
        purged = await store.retention.purge(before_ms=0, now_ms=FAR_MS)
        assert purged.orphans == 1
        assert files_of(state_dir) == named


async def test_a_kill_in_the_middle_of_traffic_and_purges_leaves_a_consistent_store(
    state_dir: Path,
) -> None:
    end = await anyio.to_thread.run_sync(lambda: _killed(state_dir, TRAFFIC, after_lines=300))

    assert end == -signal.SIGKILL
    async with open_store(
        state_dir, durability=Durability.PROCESS, archive_bytes_max_per_tenant=BYTES_MAX
    ) as store:
        await check_consistent(store, state_dir, bytes_max=BYTES_MAX)
        await store.ledger.expire_due(now_ms=FAR_MS, all_live=True)
        await store.retention.purge(before_ms=0, now_ms=FAR_MS)
        assert files_of(state_dir) == await entry_files(store, state_dir)
        await store.retention.purge(before_ms=FAR_MS + 1, now_ms=FAR_MS)
        await check_consistent(store, state_dir, bytes_max=BYTES_MAX)
        assert (await store.calls.page()).items == ()
        assert files_of(state_dir) == set()
