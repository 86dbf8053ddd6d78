"""A frozen command stands still as a whole, with its clock, and goes on where it was."""

import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import psutil
import pytest

from ebpf.capability import Host, probe_host
from ebpf.executor import CommandResult, EndCause, LocalExecutor
from tests.ebpf.commands import Pipe, is_running, limits, python, shell

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

# Its parent sleeps in the kernel until the child has become another program, as in `vfork`.
BECOMING = """
import ctypes, os, platform, time
clone = {{"x86_64": 56, "aarch64": 220}}[platform.machine()]
if ctypes.CDLL(None).syscall(clone, 0x4000 | 17, 0, 0, 0, 0) == 0:
    open({to!r}, "w").write("up")
    time.sleep(1000)
    os._exit(0)
"""

# Counts as fast as it can, in a child that left its session; tells its pid.
COUNTER = "(setsid sh -c 'echo $$ > {to}; i=0; while :; do i=$((i+1)); done' &) ; sleep 1000"


@pytest.fixture(params=["hybrid", "rlimit"])
def either(request: pytest.FixtureRequest, host: Host, state_dir: Path) -> LocalExecutor:
    """An executor of each kind of domain."""
    found = host if request.param == "hybrid" else probe_host(force_rlimit=True)
    return LocalExecutor(host=found, state_dir=state_dir, user="nobody")


def cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


async def grows(read: Callable[[], float], above: float) -> None:
    while read() <= above:
        await anyio.sleep(0.01)


@pytest.mark.requirement("session.frozen-stands-still")
async def test_no_process_of_a_frozen_command_runs_and_thawed_all_go_on(
    either: LocalExecutor, pipe: Pipe
) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(either.run, "count", shell(COUNTER.format(to=pipe.path)), limits())
            pid = int(await pipe.receive())
            await grows(lambda: cpu_seconds(pid), 0.0)

            assert await either.freeze("count")
            at_freeze = cpu_seconds(pid)
            # Long enough for a process that runs to be charged a tick of the clock or more.
            await anyio.sleep(0.3)
            while_frozen = cpu_seconds(pid)
            assert await either.thaw("count")
            await grows(lambda: cpu_seconds(pid), while_frozen)
            tasks.cancel_scope.cancel()

    # One tick may be booked late.
    assert while_frozen - at_freeze <= 0.02
    assert not is_running(pid)


@pytest.mark.requirement("session.frozen-stands-still")
async def test_the_time_limit_of_a_frozen_command_does_not_run(
    either: LocalExecutor, pipe: Pipe
) -> None:
    results: list[CommandResult] = []

    async def run() -> None:
        command = shell(f"echo up > {pipe.path}; read line < {pipe.path}; echo $line")
        results.append(await either.run("late", command, limits()))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await pipe.receive()
            await either.freeze("late")
            pause = either._pauses["late"]
            left_seconds, deadline = pause.left_seconds, pause._limit.deadline
            await anyio.sleep(0.5)
            left_later_seconds = pause.left_seconds
            await either.thaw("late")
            await pipe.send("went on\n")

    (result,) = results
    assert (result.cause, result.stdout) == (EndCause.EXITED, b"went on\n")
    assert (left_later_seconds, deadline) == (left_seconds, math.inf)
    assert result.frozen_ms >= 500


async def test_a_thawed_command_still_meets_its_time_limit(either: LocalExecutor) -> None:
    results: list[CommandResult] = []

    async def run() -> None:
        results.append(await either.run("slow", shell("sleep 1000"), limits(wall_ms=300)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            while not await either.freeze("slow"):
                await anyio.sleep(0.001)
            await either.thaw("slow")

    assert results[0].cause is EndCause.WALL


async def test_a_command_that_is_frozen_from_the_start_does_not_begin(
    executor: LocalExecutor, open_dir: Path
) -> None:
    began = open_dir / "began"
    results: list[CommandResult] = []

    async def run() -> None:
        command = shell(f"touch {began}")
        results.append(await executor.run("early", command, limits(), is_frozen=True))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.sleep(0.5)
            assert not began.exists()
            assert await executor.thaw("early")

    assert began.exists()
    assert results[0].cause is EndCause.EXITED


async def test_a_process_that_is_forked_while_others_freeze_stands_still_too(
    executor: LocalExecutor, pipe: Pipe
) -> None:
    forker = f"echo $$ > {pipe.path}; while :; do /bin/true; done"

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.run, "forks", shell(forker), limits())
            pid = int(await pipe.receive())

            await executor.freeze("forks")
            children = {child.pid for child in psutil.Process(pid).children(recursive=True)}
            await anyio.sleep(0.2)
            later = {child.pid for child in psutil.Process(pid).children(recursive=True)}
            tasks.cancel_scope.cancel()

    assert later == children


async def test_a_frozen_command_can_be_ended(either: LocalExecutor, pipe: Pipe) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(either.run, "ended", shell(COUNTER.format(to=pipe.path)), limits())
            pid = int(await pipe.receive())
            await either.freeze("ended")
            tasks.cancel_scope.cancel()

    assert not is_running(pid)


async def test_a_parent_that_waits_for_a_stopped_child_to_begin_stands_still_too(
    either: LocalExecutor, pipe: Pipe
) -> None:
    command = python(BECOMING.format(to=str(pipe.path)))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(either.run, "becomes", command, limits())
            await pipe.receive()

            frozen = await either.freeze("becomes")
            thawed = await either.thaw("becomes")
            tasks.cancel_scope.cancel()

    assert (frozen, thawed) == (True, True)


async def test_only_a_command_that_runs_can_be_frozen_and_twice_is_once(
    either: LocalExecutor, pipe: Pipe
) -> None:
    async def both(act: Callable[[str], Awaitable[bool]]) -> list[bool]:
        return [await act("one"), await act("one"), await act("other")]

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            command = shell(f"echo up > {pipe.path}; sleep 1000")
            tasks.start_soon(either.run, "one", command, limits())
            await pipe.receive()

            frozen, thawed = await both(either.freeze), await both(either.thaw)
            tasks.cancel_scope.cancel()

    assert frozen == thawed == [True, True, False]
    assert not await either.freeze("one")
