"""A limit on egress that outlives the process that set it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from ebpf.capability import CapabilityState, Host
from ebpf.domains.hierarchies import UNIFIED
from ebpf.probe.pins import Pins
from tests.ebpf.commands import PATH, ROOT
from tests.kernel.metered import datagrams

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

# A sidecar's part that counts one domain, which may send nothing, until it is killed.
LOADER = """
import os, sys, time
from dataclasses import replace
from pathlib import Path
from ebpf.metering import Metering
from ebpf.probe.pins import Pins
from tests.ebpf.commands import limits
pins = Pins(instance="test", pid=os.getpid(), place=Path(sys.argv[2])) if sys.argv[2] else None
metering = Metering(pins=pins, tracers=())
metering.attach("call", Path(sys.argv[1]), replace(limits(), egress_bytes=0))
print("attached", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def bpf_files(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "bpf"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "bpf", "bpf", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no bpf file system can be mounted: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def group(host: Host) -> Iterator[Path]:
    egress = host.capability("egress_bytes")
    if egress.state is not CapabilityState.ENFORCED:
        pytest.skip(f"needs programs in the kernel: {egress.why}")
    base = host.hierarchies[UNIFIED].own / f"flyball-test-{os.getpid()}"
    call = base / "call"
    call.mkdir(parents=True)
    yield call
    call.rmdir()
    base.rmdir()


@pytest.mark.requirement("egress.outlives-the-sidecar")
async def test_a_command_is_held_after_the_sidecar_was_killed(group: Path, bpf_files: Path) -> None:
    with anyio.fail_after(60):
        pid = await _killed_loader(group, str(bpf_files))
        held = await _sent(group)
        swept = Pins(instance="test", pid=os.getpid(), place=bpf_files).sweep()
        free = await _sent(group)

    assert held == b"[Errno 1] Operation not permitted\n0\n"
    assert swept == 1
    assert free == b"3\n"
    assert not (bpf_files / f"flyball-test-{pid}").exists()


async def test_without_pins_what_held_a_command_goes_with_the_sidecar(
    group: Path,
) -> None:
    with anyio.fail_after(60):
        await _killed_loader(group, "")
        sent = await _sent(group)

    assert sent == b"3\n"


async def test_the_pins_of_a_living_sidecar_are_left_alone(tmp_path: Path) -> None:
    living = tmp_path / f"flyball-test-{os.getpid()}"
    living.mkdir()

    swept = Pins(instance="test", pid=1, place=tmp_path).sweep()

    assert swept == 0
    assert living.exists()


async def _killed_loader(group: Path, place: str) -> int:
    """Return the id of a loader that has attached its programs and was then killed."""
    loader = await anyio.open_process(
        [sys.executable, "-c", LOADER, str(group), place],
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "PATH": PATH},
        cwd=ROOT,
        stderr=None,
    )
    async with loader:
        assert loader.stdout is not None
        assert await loader.stdout.receive() == b"attached\n"
        loader.send_signal(signal.SIGKILL)
        await loader.wait()
    return loader.pid


async def _sent(group: Path) -> bytes:
    """Return what a command in the group says of the three datagrams that it wants to send."""
    script = f'echo 0 > {group}/cgroup.procs; exec "$@"'
    ran = await anyio.run_process(["/bin/sh", "-c", script, "sh", *datagrams(3, 10).argv])
    return ran.stdout
