"""What only control groups of version 2 can do, in a guest that has them alone."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ebpf.capability import CapabilityState, Host
from ebpf.domains.own_place import LEAF
from ebpf.domains.place import Place
from ebpf.executor import CommandResult, EndCause
from governor.limits import SharedLimits
from tests.ebpf.commands import MIB, Pipe, limits, python, shell, with_time_enough
from tests.kernel.conftest import Made
from tests.kernel.lab.guest import GUEST_VARIABLE

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

DISKS = ("/dev/ubda", "/dev/vda")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory on a disk of the guest, for every user."""
    device = next((path for path in DISKS if Path(path).exists()), None)
    if not os.environ.get(GUEST_VARIABLE):
        pytest.skip("makes a file system on a disk of the guest")
    if device is None:
        pytest.skip("this guest has no disk of its own")
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", device, place], check=True)
    place.chmod(0o777)
    tmp_path.chmod(0o755)
    tmp_path.parent.chmod(0o755)
    tmp_path.parent.parent.chmod(0o755)
    yield place
    subprocess.run(["umount", place], check=True)


async def test_the_sidecar_steps_into_a_leaf_so_that_its_group_can_give_controllers_on(
    v2_host: Host,
) -> None:
    place = v2_host.hierarchies["unified"].own

    own = await anyio.Path("/proc/self/cgroup").read_text()

    assert own.strip().endswith(f"/{LEAF}")
    assert place.name != LEAF
    assert {"memory", "pids"} <= set((place / "cgroup.subtree_control").read_text().split())


async def test_every_capability_of_version_2_is_enforced(v2_host: Host) -> None:
    rows = ("memory", "memory_high", "memory_protection", "pids", "cpu_rate", "cpu_weight")
    more = ("io_read", "io_write", "io_bytes", "freeze", "kill_tree", "causes", "shared_limits")

    found = {name: v2_host.capability(name).state for name in (*rows, *more)}

    assert found == dict.fromkeys(found, CapabilityState.ENFORCED)


def contents(group: Path, *names: str) -> dict[str, str]:
    return {name: (group / name).read_text().strip() for name in names}


async def test_limits_reach_the_files_of_every_level(v2_host: Host, made: Made) -> None:
    share = SharedLimits(
        memory_bytes=256 * MIB,
        memory_low_bytes=16 * MIB,
        memory_min_bytes=8 * MIB,
        cpu_weight=300,
        pids=100,
    )
    tenant = SharedLimits(memory_high_bytes=512 * MIB, cpu_millis=1500)
    domains = made(v2_host, session=share, tenant=tenant)._domains
    domain = domains.make(Place(tenant="t", session="s", call="c"), limits(cpu_millis=500))
    call = domain.unified
    assert call is not None

    files = {
        call: {"memory.max": str(256 * MIB), "memory.oom.group": "1", "cpu.max": "50000 100000"},
        call.parent: {
            "memory.max": str(256 * MIB),
            "memory.low": str(16 * MIB),
            "memory.min": str(8 * MIB),
            "cpu.weight": "300",
            "pids.max": "100",
        },
        call.parent.parent: {"memory.high": str(512 * MIB), "cpu.max": "150000 100000"},
    }
    held = {
        group: {name: (group / name).read_text().strip() for name in files[group]}
        for group in files
    }
    domain.set_limits(limits(memory_bytes=None, pids=None))
    lifted = {
        name: (call / name).read_text().strip() for name in ("memory.max", "pids.max", "cpu.max")
    }
    await domain.remove()

    assert held == files
    assert lifted == {"memory.max": "max", "pids.max": "max", "cpu.max": "max 100000"}


async def test_above_the_high_mark_a_command_is_slowed_and_counted(
    v2_host: Host, made: Made
) -> None:
    hog = python(f"held = b'x' * {64 * MIB}; print(len(held))")
    slowed = replace(limits(memory_bytes=96 * MIB), memory_high_bytes=32 * MIB)
    executor = made(v2_host)

    with anyio.fail_after(60):
        result = await with_time_enough(
            lambda wall_ms: executor.run("slowed", hog, replace(slowed, wall_ms=wall_ms)),
            lambda result: result.memory_high_hits,
        )

    assert result.cause in {EndCause.EXITED, EndCause.WALL}
    assert result.memory_high_hits


async def test_what_a_command_reads_and_writes_is_counted_to_the_block(
    v2_host: Host, made: Made, disk: Path
) -> None:
    """Buffered writes that are still dirty at the end are part of it."""
    write = f"dd if=/dev/zero of={disk}/$NAME bs=1M count=8 2>/dev/null"

    with anyio.fail_after(120):
        buffered = await made(v2_host).run("buffered", shell(f"NAME=one; {write}"), limits())
        synced = await made(v2_host).run("synced", shell(f"NAME=two; {write} conv=fsync"), limits())

    for result in (buffered, synced):
        assert result.io_bytes is not None
        assert 8 * MIB <= result.io_bytes < 10 * MIB


async def test_a_disk_is_held_to_its_rate(v2_host: Host, made: Made, disk: Path) -> None:
    write = f"dd if=/dev/zero of={disk}/file bs=1M count=64 oflag=direct 2>/dev/null"
    held = replace(limits(wall_ms=3_000), io_write_bps=4 * MIB)

    with anyio.fail_after(120):
        result = await made(v2_host).run("throttled", shell(write), held)

    assert result.cause is EndCause.WALL
    assert result.io_bytes is not None
    rate = result.io_bytes / (result.wall_ms / 1000)
    assert rate < 8 * MIB


async def test_a_whole_call_ends_with_the_process_that_took_the_memory(
    v2_host: Host, made: Made, pipe: Pipe
) -> None:
    """The kernel itself ends the rest, before anybody could look."""
    hog = f"/usr/bin/env python3 -S -c \"x = b'x' * {200 * MIB}\""
    script = f"sleep 1000 & echo $! > {pipe.path}; {hog}; sleep 1000"
    executor = made(v2_host)
    results: list[CommandResult] = []

    async def run() -> None:
        results.append(await executor.run("tree", shell(script), limits(memory_bytes=48 * MIB)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await pipe.receive()

    assert results[0].cause is EndCause.MEMORY
    assert (results[0].victim is None) or results[0].victim.comm.startswith("python")
