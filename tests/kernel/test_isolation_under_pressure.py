"""Sessions that share one machine: real processes, real groups, the kernel's own judgement."""

import math
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ebpf.capability import Host, probe_host
from ebpf.command import Command, EndCause
from ebpf.domains.hierarchies import UNIFIED
from ebpf.errors import CapabilityMissingError, DomainError
from ebpf.executor import LocalExecutor
from ebpf.host_memory import HostMemory
from ebpf.isolation import Isolator
from ebpf.pressure_trigger import PressureTrigger
from ebpf.session_tree import Places, SessionTree, places_of
from governor.fairness.claim import Priority
from governor.limits import ExecutionLimits
from runtime.clock import SystemClock
from runtime.configuration.machine import Local
from runtime.evaluate.os.mixes import MIB
from runtime.evaluate.os.outcome import Arm, Outcome
from runtime.evaluate.os.replay import Ground, replay
from runtime.isolating import isolating, isolator_of, room_of
from tests.runtime.evaluate.os_makers import call, mix, trace

pytestmark = pytest.mark.kernel

MEMORY = 200 * MIB
LARGE = call(ms=1_500, cpu_ms=60, mib=80)
LIMITS = ExecutionLimits(
    memory_bytes=None, pids=None, cpu_millis=None, cpu_ms=None, wall_ms=2_000, output_bytes=1_000
)
ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}


@pytest.fixture(scope="module")
def host() -> Host:
    """Return a host with the groups that isolation needs, of either version."""
    if os.geteuid() != 0:
        pytest.skip("needs root: control groups are made")
    found = probe_host()
    if found.found is None or UNIFIED not in found.found.hierarchies:
        pytest.skip("needs control groups that can be frozen")
    return found


@pytest.fixture
def places(host: Host) -> Places:
    try:
        return places_of(host)[0]
    except CapabilityMissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def tree(places: Places) -> Iterator[SessionTree]:
    made = SessionTree(places, name=f"flyball-test-{os.getpid()}")
    yield made
    anyio.run(made.remove)


async def replayed(arm: Arm, places: Places, *, expected_mib: int) -> Outcome:
    ground = Ground(
        places=places,
        memory_bytes=MEMORY,
        elapsed_ns=SystemClock().elapsed_ns,
        instance=f"test-{os.getpid()}",
    )
    three = mix(*(trace(name, LARGE, base_mib=16) for name in "abc"), expected_mib=expected_mib)
    with anyio.fail_after(60):
        return await replay(three, arm, ground)


@pytest.mark.anyio
async def test_without_isolation_the_kernel_kills_what_does_not_fit(places: Places) -> None:
    found = await replayed(Arm.NONE, places, expected_mib=80)

    assert sum(one.killed for one in found.sessions) > 0
    assert (found.leaked, found.overshoot_bytes) == (0, 0)


@pytest.mark.anyio
@pytest.mark.requirement("isolation.low-stands-still")
@pytest.mark.parametrize("arm", [Arm.FLYBALL, Arm.DECLARED])
async def test_under_flyball_all_sessions_come_to_their_end(arm: Arm, places: Places) -> None:
    found = await replayed(arm, places, expected_mib=80)

    assert all(one.survived for one in found.sessions)
    assert found.delayed > 0
    assert (found.leaked, found.overshoot_bytes) == (0, 0)


@pytest.mark.anyio
@pytest.mark.requirement("isolation.low-stands-still")
async def test_calls_that_outgrow_their_estimates_are_kept_apart_as_well(places: Places) -> None:
    found = await replayed(Arm.FLYBALL, places, expected_mib=16)

    assert found.freezes > 0
    assert all(one.survived for one in found.sessions)


def test_a_group_takes_weights_and_says_what_it_holds(tree: SessionTree) -> None:
    group = tree.session("one")

    group.set_weight(400)
    group.protect(8 * MIB)

    assert group.held_bytes() == 0
    assert group.processor_used_us() == 0
    assert group.exists


@pytest.mark.anyio
async def test_the_kernel_wakes_whoever_asked_when_tasks_wait_for_a_processor(
    tree: SessionTree,
) -> None:
    tree.session("busy")
    call_group = tree.call("busy", "spin")
    path = call_group.unified / "cpu.pressure"
    try:
        trigger = PressureTrigger(path, stall_us=50_000)
    except DomainError as error:
        pytest.skip(str(error))
    join = "".join(f"echo 0 > {path}; " for path in call_group.join)
    spin = f"{join} for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait"

    async with await anyio.open_process(["sh", "-c", spin]) as process:
        with anyio.fail_after(60):
            await trigger.wait()
        await call_group.end()
        await process.wait()

    trigger.close()


def test_a_trigger_on_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match="no trigger"):
        PressureTrigger(tmp_path / "memory.pressure", stall_us=50_000)


@asynccontextmanager
async def isolated(host: Host, executor: LocalExecutor, memory_mib: int) -> AsyncIterator[Isolator]:
    isolator = isolator_of(
        Local(memory_mib=memory_mib),
        host=host,
        executor=executor,
        elapsed_ms=SystemClock().elapsed_ms,
    )
    assert isolator is not None
    async with isolating(isolator):
        yield isolator


def holding(mib: int, seconds: float) -> Command:
    taken = f"import time; b = bytearray({mib << 20}); b[::4096] = b'1' * len(b[::4096])"
    argv = ("python3", "-S", "-c", f"{taken}; time.sleep({seconds})")
    return Command(argv=argv, cwd="/", env=ENV)


@pytest.mark.anyio
@pytest.mark.requirement("isolation.admission")
async def test_a_command_waits_for_the_one_that_it_does_not_fit_beside(
    host: Host, executor: LocalExecutor
) -> None:
    began: list[str] = []
    async with executor.guarded(), isolated(host, executor, memory_mib=130) as isolator:
        room = room_of(isolator)

        async def run(session: str, priority: Priority, seconds: float) -> None:
            async with room("one", session, priority, expected_bytes=None):
                began.append(session)
                command = holding(60, seconds)
                limits = replace(LIMITS, wall_ms=20_000)
                await executor.run(session, command, limits, tenant="one", session=session)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, "first", Priority.LOW, 0.3)
                while not began:
                    await anyio.sleep(0.01)
                tasks.start_soon(run, "second", Priority.LOW, 0)
                tasks.start_soon(run, "third", Priority.HIGH, 0)

    assert began == ["first", "third", "second"]
    assert isolator.counted.delayed >= 1


@pytest.mark.anyio
async def test_the_time_limit_of_a_command_stands_still_with_its_session(
    executor: LocalExecutor,
) -> None:
    long = replace(LIMITS, wall_ms=60_000)
    async with executor.guarded():
        results = []

        async def run() -> None:
            results.append(
                await executor.run("call", holding(1, 0.2), long, tenant="one", session="s")
            )

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                while (group := executor.session_group("one", "s")) is None:
                    await anyio.sleep(0.01)
                while (pause := executor._pauses["call"])._limit is None:
                    await anyio.sleep(0.01)
                executor.stillness.note(("one", "s"), is_still=True)
                group.freeze()
                deadline = pause._limit.deadline
                await anyio.sleep(0.5)
                group.thaw()
                executor.stillness.note(("one", "s"), is_still=False)

    assert results[0].cause is EndCause.EXITED
    assert deadline == math.inf
    assert results[0].frozen_ms >= 500


def test_the_machine_says_how_much_memory_is_left(host: Host) -> None:
    assert host.found is not None
    memory = HostMemory(host.found.hierarchies, bytes_max=None)

    assert memory(MIB) > 50 * MIB
    assert HostMemory(host.found.hierarchies, bytes_max=7 * MIB)(3 * MIB) == 7 * MIB
