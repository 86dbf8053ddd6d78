"""What takes all that it can get is ended by its own limit, and its neighbours go on.

Runs on whichever control groups the host has; in User-Mode Linux these are of version 2.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import psutil
import pytest

from ebpf.capability import BackendKind, Host, probe_host
from ebpf.errors import EbpfError
from ebpf.executor import Command, CommandResult, EndCause, LocalExecutor
from governor.limits import ExecutionLimits
from tests.ebpf.commands import MIB, ROOT, Pipe, limits, python, shell

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

MEMORY_BYTES = 64 * MIB
LONG = limits(memory_bytes=MEMORY_BYTES, pids=24, cpu_ms=60_000, wall_ms=60_000)
BRIEF = limits(memory_bytes=MEMORY_BYTES, pids=24, wall_ms=700)
NEIGHBOURS = 3
# Where every user may write: into memory alone, and to a disk where there is one.
PLACES = (Path("/dev/shm"), Path("/var/tmp"))


@dataclass(frozen=True, kw_only=True)
class Bomb:
    """One way to take everything, by which limits it is held and how it must end."""

    command: Command
    causes: tuple[EndCause, ...]
    held_by: ExecutionLimits = LONG


SHARED_MAPPING = """
import mmap
held = mmap.mmap(-1, 200 << 20)
for place in range(0, 200 << 20, 4096):
    held[place] = 1
"""
# Until the machine has refused as often as this; what was begun by then forks on.
FORKS = """
import os
refused = 0
while refused < 30:
    try:
        os.fork()
    except OSError:
        refused += 1
"""
ZOMBIES = """
import os
refused = 0
while refused < 30:
    try:
        if os.fork() == 0:
            os._exit(0)
    except OSError:
        refused += 1
"""
DESCRIPTORS = """
import os
try:
    while True:
        os.open("/dev/null", os.O_RDONLY)
except OSError as error:
    print(error.errno)
"""
BOMBS = {
    "processes": Bomb(command=python(FORKS), causes=(EndCause.EXITED,)),
    "zombies": Bomb(command=python(ZOMBIES), causes=(EndCause.EXITED,)),
    "memory": Bomb(
        command=python(f"held = b'x' * {200 * MIB}"),
        causes=(EndCause.MEMORY,),
    ),
    "memory that is mapped": Bomb(command=python(SHARED_MAPPING), causes=(EndCause.MEMORY,)),
    "memory in files": Bomb(
        command=shell(f"head -c 200M /dev/zero > {PLACES[0]}/flyball-$$"),
        causes=(EndCause.MEMORY,),
    ),
    # What is written to a disk is given back; to a file system in memory it is memory.
    "cache of files": Bomb(
        command=shell("head -c 200M /dev/zero > flyball-cached-$$", cwd="/tmp"),
        causes=(EndCause.EXITED, EndCause.MEMORY),
    ),
    "processors": Bomb(
        command=shell("while :; do :; done & while :; do :; done"),
        causes=(EndCause.WALL,),
        held_by=replace(BRIEF, cpu_millis=200),
    ),
    "descriptors": Bomb(command=python(DESCRIPTORS), causes=(EndCause.EXITED,)),
    "output": Bomb(command=shell("head -c 10G /dev/zero"), causes=(EndCause.OUTPUT,)),
}


@pytest.fixture(scope="session")
def host() -> Host:
    found = probe_host()
    if os.geteuid() != 0 or found.backend is BackendKind.RLIMIT:
        pytest.skip(f"needs root and control groups: {found.capability('memory').why}")
    return found


@pytest.fixture
def _nothing_left() -> Iterator[None]:
    def left() -> set[Path]:
        return {path for place in PLACES for path in place.glob("flyball-*")}

    before = left()
    yield
    for path in left() - before:
        path.unlink()


async def beside(executor: LocalExecutor, bomb: Bomb) -> tuple[CommandResult, list[CommandResult]]:
    """Run a bomb in one session and a few honest commands in another."""
    ended: list[CommandResult] = []
    honest: list[CommandResult] = []

    async def explode() -> None:
        result = await executor.run("bomb", bomb.command, bomb.held_by, session="bad")
        ended.append(result)

    async def work() -> None:
        for number in range(NEIGHBOURS):
            command = shell("echo alive")
            honest.append(await executor.run(f"work-{number}", command, limits(), session="good"))

    with anyio.fail_after(100):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(explode)
            tasks.start_soon(work)
    return ended[0], honest


@pytest.mark.usefixtures("groups", "_nothing_left")
@pytest.mark.requirement("limit.bad-neighbour-contained")
@pytest.mark.parametrize("kind", BOMBS)
async def test_what_takes_everything_is_ended_by_its_own_limit_alone(
    executor: LocalExecutor, kind: str
) -> None:
    bomb = BOMBS[kind]
    before = psutil.Process().memory_info().rss

    ended, honest = await beside(executor, bomb)

    assert ended.cause in bomb.causes
    assert ended.memory_peak_bytes is None or ended.memory_peak_bytes <= MEMORY_BYTES
    assert len(ended.stdout) <= bomb.held_by.output_bytes
    assert psutil.Process().memory_info().rss - before < 64 * MIB
    assert [(one.cause, one.stdout) for one in honest] == (
        [(EndCause.EXITED, b"alive\n")] * NEIGHBOURS
    )
    if kind in {"processes", "zombies"}:
        assert ended.pids_limit_hits
    if kind == "processors":
        assert ended.cpu_ms is not None
        assert ended.cpu_ms < 0.5 * ended.wall_ms
    if kind == "descriptors":
        assert ended.stdout == b"24\n"  # EMFILE


@pytest.mark.requirement("process.none-escapes-its-call")
async def test_a_working_directory_that_is_a_link_to_the_state_opens_nothing(
    executor: LocalExecutor, state_dir: Path, open_dir: Path
) -> None:
    (state_dir / "token").write_text("s3cret")
    link = open_dir / "work"
    link.symlink_to(state_dir)

    with anyio.fail_after(60):
        try:
            seen = (await executor.run("call", shell("cat token", cwd=str(link)), limits())).stdout
        except EbpfError as error:
            seen = str(error).encode()

    assert b"s3cret" not in seen


@pytest.mark.requirement("isolation.says-what-it-lacks")
async def test_a_group_that_is_removed_under_its_command_is_told_and_the_next_call_runs(
    executor: LocalExecutor, pipe: Pipe
) -> None:
    told: list[object] = []

    async def run() -> None:
        command = shell(f"echo up > {pipe.path}; sleep 1000")
        try:
            told.append((await executor.run("robbed", command, limits())).cause)
        except EbpfError as error:
            told.append(error)

    with anyio.fail_after(100):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await pipe.receive()
            await anyio.to_thread.run_sync(remove_groups_of, executor, "robbed")
        after = await executor.run("next", shell("echo alive"), limits())

    assert len(told) == 1
    assert told[0] is not EndCause.EXITED
    assert after.stdout == b"alive\n"


def remove_groups_of(executor: LocalExecutor, name: str) -> None:
    """Do what no administrator should: kill a call's processes and remove its groups."""
    found = [path for place in executor._domains.groups for path in place.rglob(name)]
    assert found
    for path in found:
        if (path / "cgroup.kill").exists():
            (path / "cgroup.kill").write_text("1")
    for path in found:
        while path.exists():
            try:
                path.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                continue  # the last of its processes is on its way out


PROBE = """
import json
from ebpf.capability import probe_host
host = probe_host()
print(json.dumps({one.name: [one.state, one.why] for one in host.capabilities}))
"""


def probed_under(*before: str) -> dict[str, list[str]]:
    """Return what a sidecar finds on this host that was deprived of something."""
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "PATH": os.defpath}
    argv = [*before, sys.executable, "-c", PROBE]
    done = subprocess.run(argv, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("host")
@pytest.mark.requirement("isolation.says-what-it-lacks")
def test_without_the_right_to_load_programs_limits_hold_and_what_is_lost_is_told() -> None:
    setpriv = shutil.which("setpriv")
    assert setpriv is not None

    found = probed_under(setpriv, "--bounding-set=-bpf,-perfmon,-sys_admin,-net_admin")

    assert found["memory"][0] == "enforced"
    assert found["egress_bytes"][0] == "absent"
    assert found["egress_bytes"][1]


@pytest.mark.usefixtures("host")
@pytest.mark.requirement("isolation.says-what-it-lacks")
def test_without_a_file_system_for_programs_it_is_told_that_no_limit_outlives_the_sidecar() -> None:
    unmounted = 'umount -l /sys/fs/bpf 2>/dev/null; exec "$@"'

    found = probed_under("unshare", "-m", "/bin/sh", "-c", unmounted, "sh")

    assert found["memory"][0] == "enforced"
    assert found["egress_outlives"][0] == "absent"
    assert found["egress_outlives"][1]
