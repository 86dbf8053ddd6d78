"""Erasures that cannot overwrite at once what they erase: they are remembered, and done later."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from governor.experience.search import Filters, Search
from memory_store.engine import Durability
from memory_store.experiences.scrubbing import is_due
from memory_store.store import DATABASE_NAME, Store, open_store
from tests.memory_store.experiences.makers import ACME, BY, NOW, draft, ids, space_of, wrote

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
SECRET = "correcthorsebatterystaple"

# Erases, and is killed between the commit and what would have overwritten it.
CHILD = f"""
import os
import signal
import sys
from pathlib import Path

import anyio

from memory_store.engine import Durability
from memory_store.experiences.scrubbing import Scrubbing
from memory_store.store import open_store
from tests.memory_store.experiences.makers import ACME, BY, draft, ids, space_of, wrote


async def die(*_arguments, **_named):
    os.kill(os.getpid(), signal.SIGKILL)


async def main():
    async with open_store(Path(sys.argv[1]), durability=Durability.PROCESS) as store:
        space = await space_of(store)
        await wrote(store, draft("a", space, terms={SECRET!r}), draft("b", space))
        Scrubbing.scrub = die
        await store.experiences.erase(ids=ids("a"), tenant=ACME, **BY)


anyio.run(main)
"""


def left_in(state_dir: Path) -> int:
    """Return how often the word stands in the files of the database."""
    files = state_dir.glob(f"{DATABASE_NAME}*")
    return sum(path.read_bytes().count(SECRET.encode()) for path in files)


async def is_scrub_due(store: Store) -> bool:
    return await store.reader.run(is_due)


@pytest.mark.requirement("memory.scrub-due")
async def test_what_somebody_read_while_it_was_erased_is_overwritten_by_the_next_purge(
    tmp_path: Path,
) -> None:
    async with open_store(tmp_path, durability=Durability.PROCESS) as store:
        space = await space_of(store)
        await wrote(store, draft("a", space, content=SECRET.encode(), terms=SECRET))
        with closing(sqlite3.connect(tmp_path / DATABASE_NAME)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM experiences").fetchone()
            await store.experiences.erase(ids=ids("a"), tenant=ACME, **BY)
            await store.retention.purge(before_ms=0, now_ms=NOW)
            while_read = (left_in(tmp_path) > 0, await is_scrub_due(store))
        await wrote(store, draft("b", space))

        await store.retention.purge(before_ms=0, now_ms=NOW)

        assert while_read == (True, True)
        assert (left_in(tmp_path), await is_scrub_due(store)) == (0, False)


@pytest.mark.requirement("memory.scrub-due")
async def test_what_was_erased_before_a_kill_is_overwritten_by_the_first_purge(
    tmp_path: Path,
) -> None:
    def killed() -> int:
        return subprocess.run(
            [sys.executable, "-c", CHILD, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
            check=False,
        ).returncode

    with anyio.fail_after(120):
        end = await anyio.to_thread.run_sync(killed)

    async with open_store(tmp_path, durability=Durability.PROCESS) as store:
        before = (left_in(tmp_path) > 0, await is_scrub_due(store))
        await store.retention.purge(before_ms=0, now_ms=NOW)
        assert (end, *before) == (-signal.SIGKILL, True, True)
        assert (left_in(tmp_path), await is_scrub_due(store)) == (0, False)


async def test_after_an_erasure_that_nobody_disturbed_nothing_is_due(kept: Store) -> None:
    space = await space_of(kept)
    await wrote(kept, draft("a", space), draft("b", space))

    await kept.experiences.erase(ids=ids("a"), tenant=ACME, **BY)

    assert not await is_scrub_due(kept)
    search = Search(tenant=ACME, namespaces=(space,), text="about b", now_ms=NOW, filters=Filters())
    hits = (await kept.experience_search.search(search)).hits
    assert [hit.experience.experience_id for hit in hits] == [*ids("b")]
