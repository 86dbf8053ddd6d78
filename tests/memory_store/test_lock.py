import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from memory_store.errors import StateDirectoryBusyError, StoreUnavailableError
from memory_store.lock import exclusive
from memory_store.store import open_store

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
CHILD = """
import sys
from pathlib import Path
from memory_store.lock import exclusive

with exclusive(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


async def test_a_second_store_is_refused_and_told_who_holds_the_directory(state_dir: Path) -> None:
    async with open_store(state_dir):
        with pytest.raises(StateDirectoryBusyError, match=rf"pid {os.getpid()}\b"):
            async with open_store(state_dir):
                pass


async def test_a_directory_is_free_again_once_its_store_is_closed(state_dir: Path) -> None:
    async with open_store(state_dir):
        pass

    async with open_store(state_dir) as store:
        await store.check()


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"locked\n"
        with (
            pytest.raises(StateDirectoryBusyError, match=rf"pid {child.pid}\b"),
            exclusive(tmp_path),
        ):
            pass
        child.kill()
        child.wait()

        with exclusive(tmp_path):
            pass


async def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreUnavailableError, match="file/state"):
        async with open_store(tmp_path / "file" / "state"):
            pass


def _made(folder: Path, mode: int) -> Path:
    folder.mkdir()
    folder.chmod(mode)
    return folder


def _mode_of(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


async def test_a_directory_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    state_dir = _made(tmp_path / "open", 0o755)

    async with open_store(state_dir):
        pass

    assert _mode_of(state_dir) == 0o700


async def test_a_directory_that_everybody_shares_is_refused_and_left_as_it_is(
    tmp_path: Path,
) -> None:
    state_dir = _made(tmp_path / "shared", 0o1777)

    with pytest.raises(StoreUnavailableError, match="is shared"):
        async with open_store(state_dir):
            pass

    assert _mode_of(state_dir) == 0o1777


async def test_a_file_in_place_of_the_directory_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreUnavailableError, match="file is a file"):
        async with open_store(tmp_path / "file"):
            pass
