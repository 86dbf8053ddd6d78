"""The kernel of this suite has what the others lack, so a pass here means something."""

import os
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.kernel

WAIT_MS = 60_000


@pytest.fixture
def group() -> Iterator[Path]:
    path = Path(f"/sys/fs/cgroup/guest-{os.getpid()}")
    path.mkdir()
    yield path
    (path / "cgroup.kill").write_text("1")
    path.rmdir()


def test_the_kernel_has_control_groups_of_version_2_with_every_controller() -> None:
    found = set(Path("/sys/fs/cgroup/cgroup.controllers").read_text().split())

    assert found >= {"cpu", "cpuset", "io", "memory", "pids"}


def test_programs_may_be_hung_on_security_decisions_and_know_the_kernels_types() -> None:
    assert "bpf" in Path("/sys/kernel/security/lsm").read_text()
    assert Path("/sys/kernel/btf/vmlinux").stat().st_size > 0


def test_pressure_wakes_who_waits_for_it(group: Path) -> None:
    (group / "memory.high").write_text(str(8 << 20))
    trigger = os.open(group / "memory.pressure", os.O_RDWR | os.O_NONBLOCK)
    os.write(trigger, b"some 20000 1000000\0")
    waiting = select.poll()
    waiting.register(trigger, select.POLLPRI)

    joined = (
        f"echo 0 > {group}/cgroup.procs; exec /usr/bin/env python3 -S -c 'x = b\"1\" * (32 << 20)'"
    )
    with subprocess.Popen(["/bin/sh", "-c", joined]) as hog:
        happened = waiting.poll(WAIT_MS)
        hog.kill()
    os.close(trigger)

    assert happened
