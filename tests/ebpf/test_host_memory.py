from pathlib import Path

import pytest

from ebpf.domains.hierarchies import UNIFIED, Hierarchy
from ebpf.errors import DomainError
from ebpf.host_memory import HostMemory

MIB = 1 << 20


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    path = tmp_path / "meminfo"
    path.write_text(f"MemTotal: {4000 * 1024} kB\nMemAvailable: {1000 * 1024} kB\n")
    return path


def group(path: Path, *, limit: str, current: int, cached: int = 0) -> Path:
    path.mkdir(parents=True)
    (path / "memory.max").write_text(limit)
    (path / "memory.current").write_text(str(current))
    (path / "memory.stat").write_text(f"inactive_file {cached}\nactive_file 0\n")
    return path


def test_commands_can_hold_what_they_hold_and_what_is_available(meminfo: Path) -> None:
    assert HostMemory({}, bytes_max=None, meminfo=meminfo)(200 * MIB) == 1200 * MIB


def test_commands_can_hold_no_more_than_an_operator_lets_them(meminfo: Path) -> None:
    assert HostMemory({}, bytes_max=300 * MIB, meminfo=meminfo)(200 * MIB) == 300 * MIB


def test_a_group_around_the_sidecar_leaves_what_is_left_of_its_limit(
    tmp_path: Path, meminfo: Path
) -> None:
    mount = tmp_path / "cgroup"
    outer = group(mount / "outer", limit=str(500 * MIB), current=400 * MIB, cached=50 * MIB)
    own = group(outer / "own", limit="max\n", current=10 * MIB)
    hierarchies = {UNIFIED: Hierarchy(mount=mount, own=own)}

    found = HostMemory(hierarchies, bytes_max=None, meminfo=meminfo)(100 * MIB)

    assert found == 100 * MIB + 150 * MIB


def test_a_machine_that_does_not_say_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "meminfo"
    path.write_text("MemTotal: 1 kB\n")

    with pytest.raises(DomainError, match="no MemAvailable"):
        HostMemory({}, bytes_max=None, meminfo=path)
