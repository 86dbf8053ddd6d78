"""What every kind of domain promises, tried on each kind that this machine can make.

Natively that is hybrid, pure v1 and rlimit; in a guest with version 2 alone it is that one.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ebpf.capability import CapabilityState, Host
from ebpf.command import Level
from ebpf.domains.groups import find_groups
from ebpf.domains.place import Place
from ebpf.errors import DomainError
from ebpf.executor import Command, CommandResult, EndCause, LocalExecutor, instance_of
from governor.limits import SharedLimits
from tests.ebpf.commands import (
    DAEMON,
    HOSTILE,
    HOSTILE_SLEEPERS,
    MIB,
    Pipe,
    is_running,
    limits,
    python,
    shell,
    start_server_owner,
    until_sleeping,
    with_time_enough,
)
from tests.kernel.conftest import Made

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

HOG = python(f"import time; held = b'x' * {200 * MIB}; time.sleep(1000)")
FORKS = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 1000 & done; wait"

# What a row of the capability table says of a figure of the result.
FIGURES = {
    "cpu_time": "cpu_ms",
    "peak_memory": "memory_peak_bytes",
    "peak_swap": "swap_peak_bytes",
    "peak_pids": "pids_peak",
    "io_bytes": "io_bytes",
}


async def run_all(executor: LocalExecutor, count: int) -> list[CommandResult]:
    results: list[CommandResult] = []

    async def run(number: int) -> None:
        name = f"call-{number}"
        session, tenant = f"session-{number % 3}", f"tenant-{number % 2}"
        script = shell(f"head -c 2000000 /dev/zero | tail -c 1 >/dev/null; exit {number}")
        results.append(await executor.run(name, script, limits(), tenant=tenant, session=session))

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(run, number)
    return results


@pytest.mark.requirement("domain.figures-or-reasons")
async def test_every_figure_of_the_table_is_known_of_every_call_and_every_other_has_a_reason(
    any_host: Host, made: Made
) -> None:
    executor = made(any_host)

    with anyio.fail_after(120):
        results = await run_all(executor, 12)

    assert sorted(result.exit_code or 0 for result in results) == list(range(12))
    for row, figure in FIGURES.items():
        state = any_host.capability(row).state
        known = [getattr(result, figure) is not None for result in results]
        if state is CapabilityState.ENFORCED:
            assert all(known), (row, [result.unknown for result in results])
        if state is CapabilityState.ABSENT:
            assert not any(known), row
            assert any_host.capability(row).why
    unexplained = [unit for result in results for unit, why in result.unmeasured.items() if not why]
    assert not unexplained


@pytest.mark.requirement("domain.truthful-cause")
async def test_a_command_over_its_own_memory_is_told_so(group_host: Host, made: Made) -> None:
    with anyio.fail_after(60):
        result = await made(group_host).run("hog", HOG, limits(memory_bytes=48 * MIB))

    assert result.cause is EndCause.MEMORY
    assert result.memory_peak_bytes is not None
    assert result.memory_peak_bytes <= 48 * MIB
    assert result.victim is None or result.victim.comm.startswith("python")


@pytest.mark.requirement("domain.shared-limits")
@pytest.mark.parametrize("level", [Level.SESSION, Level.TENANT])
async def test_commands_that_share_a_limit_are_told_whose_it_was(
    group_host: Host, made: Made, level: Level
) -> None:
    share = SharedLimits(memory_bytes=64 * MIB)
    of_session = level is Level.SESSION
    executor = made(group_host, session=share) if of_session else made(group_host, tenant=share)

    with anyio.fail_after(60):
        result = await executor.run("hog", HOG, limits(memory_bytes=None))

    expected = EndCause.SESSION_MEMORY if of_session else EndCause.TENANT_MEMORY
    assert result.cause is expected


@pytest.fixture
def tight(group_host: Host) -> Iterator[Host]:
    """Yield the machine as it is for a sidecar in a container with little memory."""
    assert group_host.found is not None
    hierarchies = group_host.found.hierarchies
    name = "memory" if "memory" in hierarchies else "unified"
    outer = hierarchies[name]
    group = outer.own / f"tight-{os.getpid()}"
    group.mkdir()
    if name == "unified":
        enabled = "".join(f"+{one} " for one in group_host.found.controllers)
        (group / "cgroup.subtree_control").write_text(enabled)
    control = "memory.max" if name == "unified" else "memory.limit_in_bytes"
    (group / control).write_text(str(64 * MIB))
    inner = {**hierarchies, name: replace(outer, own=group)}
    yield replace(group_host, found=replace(group_host.found, hierarchies=inner))
    group.rmdir()


@pytest.mark.requirement("domain.truthful-cause")
async def test_memory_that_the_container_lacks_is_no_limit_of_the_calls(
    tight: Host, made: Made
) -> None:
    executor = made(tight, session=SharedLimits(memory_bytes=512 * MIB))

    with anyio.fail_after(60):
        result = await executor.run("hog", HOG, limits(memory_bytes=256 * MIB))

    assert result.cause is EndCause.HOST_MEMORY


async def test_a_neighbour_in_another_session_lives_on(
    group_host: Host, made: Made, pipe: Pipe
) -> None:
    executor = made(group_host, session=SharedLimits(memory_bytes=64 * MIB))
    neighbour: list[CommandResult] = []

    async def run_neighbour() -> None:
        command = shell(f"read line < {pipe.path}; echo $line")
        neighbour.append(await executor.run("neighbour", command, limits(), session="other"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_neighbour)
            killed = await executor.run("hog", HOG, limits(memory_bytes=None), session="one")
            await pipe.send("alive\n")

    assert killed.cause is EndCause.SESSION_MEMORY
    assert (neighbour[0].cause, neighbour[0].stdout) == (EndCause.EXITED, b"alive\n")


@pytest.mark.requirement("domain.truthful-cause")
async def test_a_signal_of_its_own_is_no_limits(any_host: Host, made: Made) -> None:
    with anyio.fail_after(60):
        result = await made(any_host).run("killed", shell("kill -KILL $$"), limits())

    assert result.cause in {EndCause.SIGNALLED, EndCause.UNKNOWN}
    if any_host.capability("causes").state is CapabilityState.ENFORCED:
        assert result.cause is EndCause.SIGNALLED


async def test_a_command_over_its_time_is_told_so_whatever_else_it_does(
    any_host: Host, made: Made
) -> None:
    with anyio.fail_after(60):
        result = await made(any_host).run(
            "slow", shell("trap '' TERM; sleep 1000"), limits(wall_ms=300)
        )

    assert result.cause is EndCause.WALL


@pytest.mark.requirement("domain.truthful-cause")
@pytest.mark.parametrize("level", [Level.CALL, Level.SESSION])
async def test_forks_that_are_refused_are_counted_and_whose_limit_it_was_is_told(
    group_host: Host, made: Made, level: Level
) -> None:
    own, shared = (8, None) if level is Level.CALL else (64, 8)
    executor = made(group_host, session=SharedLimits(pids=shared))

    with anyio.fail_after(60):
        result = await with_time_enough(
            lambda wall_ms: executor.run("forks", shell(FORKS), limits(pids=own, wall_ms=wall_ms)),
            lambda result: result.pids_limit_hits,
        )

    assert result.pids_limit_hits
    assert result.pids_refused_by is level


def holding(first_mib: int, then_mib: int, pipe: Pipe, go: Path) -> Command:
    """Return a command that holds memory, says so, waits to be let go, and takes more."""
    return python(
        "import os, time\n"
        f"held = bytearray(b'x') * {first_mib * MIB}\n"
        f"open({str(pipe.path)!r}, 'w').write('ready')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
        f"more = bytearray(b'x') * {then_mib * MIB}\n"
        "print(len(held) + len(more))"
    )


async def test_a_command_can_be_given_more_memory_while_it_runs(
    group_host: Host, made: Made, pipe: Pipe, open_dir: Path
) -> None:
    executor, go = made(group_host), open_dir / "go"
    results: list[CommandResult] = []

    async def run() -> None:
        command = holding(16, 84, pipe, go)
        results.append(await executor.run("grows", command, limits(memory_bytes=48 * MIB)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await pipe.receive()
            raised = await executor.set_limits("grows", limits(memory_bytes=192 * MIB))
            go.touch()
        late = await executor.set_limits("grows", limits())

    assert (raised, late) == (True, False)
    assert (results[0].cause, results[0].stdout) == (EndCause.EXITED, f"{100 * MIB}\n".encode())


async def test_a_limit_below_what_is_in_use_is_refused_and_the_command_goes_on(
    group_host: Host, made: Made, pipe: Pipe, open_dir: Path
) -> None:
    executor, go = made(group_host), open_dir / "go"
    results: list[CommandResult] = []

    async def run() -> None:
        command = holding(80, 1, pipe, go)
        results.append(await executor.run("holds", command, limits(memory_bytes=128 * MIB)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await pipe.receive()
            with pytest.raises(DomainError, match=r"are in use"):
                await executor.set_limits("holds", limits(memory_bytes=32 * MIB))
            go.touch()

    assert (results[0].cause, results[0].stdout) == (EndCause.EXITED, f"{81 * MIB}\n".encode())


@pytest.mark.requirement("process.none-outlives-call")
async def test_a_daemon_does_not_survive_on_any_kind_of_domain(
    any_host: Host, made: Made, pipe: Pipe
) -> None:
    daemon = DAEMON.format(to=pipe.path)

    with anyio.fail_after(60):
        result = await made(any_host).run("daemon", shell(f"{daemon}; cat {pipe.path}"), limits())

    assert result.cause is EndCause.EXITED
    assert not is_running(int(result.stdout))


async def test_a_fork_bomb_is_gone_at_the_end(group_host: Host, made: Made) -> None:
    executor = made(group_host)
    bomb = python("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass\n")

    with anyio.fail_after(60):
        result = await with_time_enough(
            lambda wall_ms: executor.run("bomb", bomb, limits(pids=24, wall_ms=wall_ms)),
            lambda result: result.pids_limit_hits,
        )

    assert result.cause is EndCause.WALL
    assert result.pids_limit_hits


@pytest.mark.requirement("process.none-outlives-sidecar")
async def test_no_process_and_no_group_outlives_a_sidecar_that_is_killed(
    group_host: Host, made: Made, state_dir: Path, pipe: Pipe
) -> None:
    token = f"1000.{os.getpid()}777"
    script = HOSTILE.format(to=pipe.path, token=token)
    made(group_host)  # looks afterwards whether a group of this state directory is left
    assert group_host.found is not None
    mounts = {hierarchy.mount for hierarchy in group_host.found.hierarchies.values()}

    with anyio.fail_after(90):
        async with await start_server_owner(state_dir, script, backend=group_host.backend) as owner:
            await pipe.receive()
            await until_sleeping(token, HOSTILE_SLEEPERS)
            owner.kill()
        await until_sleeping(token, 0)
        name = f"flyball-{instance_of(state_dir)}-{owner.pid}"
        while [base for mount in mounts for base in find_groups(mount, name)]:
            await anyio.sleep(0.02)


@pytest.mark.requirement("domain.none-leaked")
async def test_a_domain_that_somebody_removed_is_measured_as_unknown_and_leaves_nothing(
    group_host: Host, made: Made
) -> None:
    domains = made(group_host)._domains
    domain = domains.make(Place(tenant="t", session="s", call="gone"), limits())
    for control in domain.entry.join:
        Path(control).parent.rmdir()

    measured = domain.measure()
    with anyio.fail_after(60):
        await domain.kill()
        await domain.remove()

    assert (measured.cpu_ms, measured.memory_peak_bytes, measured.memory_kills) == (None,) * 3
    assert measured.unknown["cpu_ms"]
    assert measured.unknown["memory_peak_bytes"]


@pytest.mark.requirement("domain.none-leaked")
async def test_a_session_whose_group_vanished_runs_its_next_call_within_its_limits(
    group_host: Host, made: Made
) -> None:
    executor = made(group_host, session=SharedLimits(memory_bytes=64 * MIB))
    gone = executor._domains.make(Place(tenant="local", session="local", call="gone"), limits())
    for control in gone.entry.join:
        Path(control).parent.rmdir()
        Path(control).parent.parent.rmdir()

    with anyio.fail_after(60):
        result = await executor.run("next", HOG, limits(memory_bytes=None))
        await gone.remove()

    assert result.cause is EndCause.SESSION_MEMORY


@pytest.mark.requirement("domain.none-leaked")
async def test_a_sweep_ends_what_a_dead_sidecar_left_in_any_session(
    group_host: Host, made: Made
) -> None:
    executor = made(group_host)
    own = executor._domains
    mine = own.make(Place(tenant="t", session="s", call="mine"), limits())
    left = [Path(control).parent.parent / "left" for control in mine.entry.join]
    for path in left:
        path.mkdir()
    command = "".join(f"echo 0 > {path}/cgroup.procs; " for path in left) + "exec sleep 1000"

    with anyio.fail_after(60):
        async with await anyio.open_process(["/bin/sh", "-c", command]) as stray:
            while str(stray.pid) not in (left[-1] / "cgroup.procs").read_text().split():
                await anyio.sleep(0.01)
            swept = await executor.sweep()
            code = await stray.wait()
        stands = [os.access(control, os.F_OK) for control in mine.entry.join]
        await mine.remove()

    assert (swept, code) == (1, -9)
    assert all(stands)
