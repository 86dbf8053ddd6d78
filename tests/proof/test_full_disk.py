"""A disk that is full: nothing acknowledged is lost, and when there is room work goes on."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHARGE = 3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@contextmanager
def _filling(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "proof.full_disk", str(folder), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _said(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    said: dict[str, object] = json.loads(process.stdout.readline())
    return said


def _told_that_there_is_room(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return _said(process)


def _judge(full: dict[str, object], after: dict[str, object]) -> None:
    assert full["faults"] == after["faults"] == []
    assert isinstance(full["settled"], int)
    assert full["settled"] > 50, "it was full before it was used"
    assert after["more"] == 50
    settled, reserved, overrun = after["books"]  # type: ignore[misc]
    assert (reserved, overrun) == (0, 0)
    # A settlement whose COMMIT failed may have been stored after all, never a second time.
    acknowledged = CHARGE * (full["settled"] + 50)
    assert acknowledged <= settled <= acknowledged + CHARGE


@pytest.mark.requirement("proof.full-disk")
def test_a_file_that_may_not_grow_loses_nothing(tmp_path: Path) -> None:
    with _filling(tmp_path, "--growth-bytes-max", "100000") as process:
        full = _said(process)
        after = _told_that_there_is_room(process)

    _judge(full, after)


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """Yield a disk of a few megabytes in memory."""
    disk = folder / "disk"
    disk.mkdir()
    mounted = _mount("-t", "tmpfs", "-o", "size=5m", "tmpfs", str(disk))
    if not mounted:
        pytest.skip("cannot mount a small disk here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True, timeout=10)


def _mount(*options: str) -> bool:
    if os.geteuid() != 0:
        return False
    done = subprocess.run(["mount", *options], check=False, timeout=10, capture_output=True)
    return done.returncode == 0


@pytest.mark.requirement("proof.full-disk")
def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    with _small_disk(tmp_path) as disk, _filling(disk) as process:
        full = _said(process)
        assert _mount("-o", "remount,size=32m", str(disk))
        after = _told_that_there_is_room(process)

    _judge(full, after)
