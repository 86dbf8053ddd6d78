"""The kernel of this suite enforces what its control groups say, so a pass here means something."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.kernel

MIB = 1 << 20
TAKES = "held = b'x' * (200 << 20)"


@pytest.fixture
def group() -> Iterator[Path]:
    path = Path(f"/sys/fs/cgroup/guest-{os.getpid()}")
    path.mkdir()
    yield path
    (path / "cgroup.kill").write_text("1")
    path.rmdir()


def run_in(group: Path, *argv: str) -> int:
    joined = f'echo 0 > {group}/cgroup.procs && exec "$@"'
    return subprocess.run(["/bin/sh", "-c", joined, "sh", *argv], check=False).returncode


def events(group: Path, name: str) -> dict[str, int]:
    lines = (group / name).read_text().splitlines()
    return {word: int(count) for word, count in map(str.split, lines)}


def test_memory_beyond_the_limit_is_not_given(group: Path) -> None:
    (group / "memory.max").write_text(str(64 * MIB))

    code = run_in(group, "/usr/bin/env", "python3", "-S", "-c", TAKES)

    assert code == -9
    assert events(group, "memory.events")["oom_kill"] >= 1
    assert int((group / "memory.peak").read_text()) <= 64 * MIB


def test_processes_beyond_the_limit_are_not_begun(group: Path) -> None:
    (group / "pids.max").write_text("1")

    code = run_in(group, "/bin/sh", "-c", "/bin/true & wait")

    assert code != 0
    assert events(group, "pids.events")["max"] >= 1


def test_a_rate_of_the_processor_holds_back(group: Path) -> None:
    (group / "cpu.max").write_text("10000 100000")

    run_in(group, "timeout", "1", "/bin/sh", "-c", "while :; do :; done")

    counted = events(group, "cpu.stat")
    assert counted["nr_throttled"] > 0
    assert counted["usage_usec"] < 500_000
