"""The drill: a backup and a restore are killed in the middle, a few steps here, all in `prove`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from drawn import SEED

ROOT = Path(__file__).parents[3]


def kills(kind: str, folder: Path, *urls: str, every: int) -> int:
    """Return how often a drill killed, each time at another step."""
    # Not later than half way: the last of the steps must not be passed before one is met.
    first = 1 + SEED % (every // 2)
    done = subprocess.run(
        [sys.executable, "-m", "tests.memory_store.backups.drill", kind, folder, str(first),
         str(every), *urls],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
    )  # fmt: skip
    assert done.returncode == 0, f"from step {first}: {done.stderr}"
    return int(json.loads(done.stdout)["kills"])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("backup.survives-kills")
def test_a_backup_that_is_killed_leaves_no_half_of_one(tmp_path: Path) -> None:
    assert kills("backups", tmp_path, every=9) >= 3


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("backup.survives-kills")
def test_a_restore_that_is_killed_leaves_one_store_or_the_other(tmp_path: Path) -> None:
    assert kills("restores", tmp_path, every=13) >= 3


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("backup.survives-kills")
def test_a_restore_of_a_servers_store_that_is_killed_leaves_nothing_or_all(
    tmp_path: Path, database: str, empty_database: str
) -> None:
    assert kills("server", tmp_path, empty_database, database, every=110) >= 1
