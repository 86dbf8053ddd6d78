"""The livelock of `memory.high` on a real v2 hierarchy: noticed, told, and ended in time."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ebpf.command import EndCause
from ebpf.domains.domain import Entry, Measured
from ebpf.domains.groups import (
    freeze_group,
    kill_group,
    read,
    read_field,
    remove_groups,
    thaw_group,
    write,
)
from ebpf.grips import ThrottlingGrip, grip_of
from ebpf.ladder import Ladder, LadderPlan
from ebpf.pausing import Pause
from governor.ladder import LadderTerms, Look, Rung, Sight
from governor.limits import ExecutionLimits
from governor.raising import MemoryAnswer, MemoryQuestion
from tests.ebpf.commands import MIB

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

ROOT = Path("/sys/fs/cgroup")
BASE = ROOT / "flyball-livelock"
LIMIT = 64 * MIB
NOTICED_SECONDS_MAX = 5.0
HOG = """
held = []
while len(held) < {mib}:
    held.append(bytearray(b"x" * 1048576))
print("has it all", flush=True)
"""


# Reads its libraries' neighbours, more than it may have memory.
READER = """
import os
left = 150 << 20
for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/bin"):
    for entry in os.scandir(folder) if os.path.isdir(folder) else ():
        if left > 0 and entry.is_file() and entry.stat().st_size > 1 << 20:
            with open(entry.path, "rb") as file:
                while part := file.read(1 << 20):
                    left -= len(part)
"""


class Group:
    """One real group of the v2 hierarchy, with the parts of a domain that the ladder needs."""

    entry = Entry()

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.unified: Path | None = path
        self.memory: Path | None = path
        self._path = path
        self._processes: list[subprocess.Popen[bytes]] = []

    def set_limits(self, limits: ExecutionLimits) -> None:
        write(self._path / "memory.max", str(limits.memory_bytes))
        if limits.cpu_weight is not None:
            write(self._path / "cpu.weight", str(limits.cpu_weight))

    def run(self, source: str) -> "subprocess.Popen[bytes]":
        join = f"echo $$ > {self._path}/cgroup.procs && exec {sys.executable} -S -c '{source}'"
        process = subprocess.Popen(["/bin/sh", "-c", join], stdout=subprocess.PIPE)
        self._processes.append(process)
        return process

    def started(self, pid: int) -> None:
        """It is in its group by itself."""

    def members(self) -> tuple[int, ...]:
        return tuple(map(int, read(self._path / "cgroup.procs").split()))

    async def watch(self, limits: ExecutionLimits) -> EndCause:
        while not read_field(self._path / "memory.events", "oom_kill"):
            await anyio.sleep(0.05)
        return EndCause.MEMORY

    async def freeze(self) -> None:
        await freeze_group(self._path)

    async def thaw(self) -> None:
        thaw_group(self._path)

    async def kill(self) -> None:
        await kill_group(self._path)

    def measure(self) -> Measured:
        peak = int(read(self._path / "memory.peak"))
        return Measured(cpu_ms=None, memory_peak_bytes=peak)

    async def end(self) -> None:
        await self.kill()
        for process in self._processes:
            process.communicate()
        await self.remove()

    async def remove(self) -> None:
        await remove_groups([self._path])


@pytest.fixture
def group() -> Iterator[Group]:
    controllers = ROOT / "cgroup.controllers"
    if not controllers.exists() or "memory" not in controllers.read_text().split():
        pytest.skip("needs a v2 hierarchy with the memory controller")
    write(ROOT / "cgroup.subtree_control", "+memory +cpu")
    BASE.mkdir(exist_ok=True)
    write(BASE / "cgroup.subtree_control", "+memory +cpu")
    made = Group(BASE / "call")
    yield made
    anyio.run(made.end)
    BASE.rmdir()


def some_limits(ceiling_bytes: int | None = None) -> ExecutionLimits:
    return ExecutionLimits(
        memory_bytes=LIMIT,
        pids=None,
        cpu_millis=None,
        cpu_ms=None,
        wall_ms=60_000,
        output_bytes=MIB,
        memory_ceiling_bytes=ceiling_bytes,
    )


def ladder_on(group: Group, limits: ExecutionLimits, plan: LadderPlan) -> Ladder:
    group.set_limits(limits)
    return Ladder("call", group, Pause(group), limits, plan)


@pytest.mark.requirement("ladder.stall-is-noticed")
async def test_a_hog_that_livelocks_is_noticed_in_five_seconds_and_climbs(group: Group) -> None:
    ladder = ladder_on(group, some_limits(), LadderPlan(terms=LadderTerms()))
    assert isinstance(grip_of(group), ThrottlingGrip)
    looked_at, look = [], ladder._grip.look

    async def noting(**held: int | None) -> Look:
        looked_at.append(anyio.current_time())
        return await look(**held)  # type: ignore[arg-type] # as they came

    ladder._grip.look = noting  # type: ignore[method-assign]
    group.run(HOG.format(mib=400))

    with anyio.fail_after(60):
        while read_field(BASE / "call" / "memory.events", "high") == 0:
            await anyio.sleep(0.01)
        held_back_at = anyio.current_time()
        cause = await ladder.climb()
        await group.kill()

    assert cause is EndCause.STUCK
    # With the first look after it at the latest, which a busy machine may keep waiting.
    assert looked_at[-2] - held_back_at < NOTICED_SECONDS_MAX
    assert ladder.story.path[:2] == (Rung.FREE, Rung.THROTTLED)
    assert ladder.story.culprit is not None
    assert read_field(BASE / "call" / "memory.events", "oom_kill") == 0


@pytest.mark.requirement("ladder.never-over-the-hard-limit")
async def test_no_rung_lets_a_hog_over_its_hard_limit(group: Group) -> None:
    ladder = ladder_on(group, some_limits(), LadderPlan(terms=LadderTerms(throttle_permille=950)))
    group.run(HOG.format(mib=400))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ladder.climb)
            await anyio.sleep(4)
            tasks.cancel_scope.cancel()
        peak_bytes = int(read(BASE / "call" / "memory.peak"))
        await group.kill()

    assert peak_bytes <= LIMIT


@pytest.mark.requirement("ladder.raise-goes-on")
async def test_a_stuck_command_that_is_given_more_goes_on_to_its_end(group: Group) -> None:
    questions: list[MemoryQuestion] = []

    async def ask(question: MemoryQuestion) -> MemoryAnswer:
        questions.append(question)
        return MemoryAnswer(sight=Sight.RAISED, memory_bytes=question.wanted_bytes)

    limits = some_limits(ceiling_bytes=4 * LIMIT)
    ladder = ladder_on(group, limits, LadderPlan(terms=LadderTerms(), ask=ask))
    process = group.run(HOG.format(mib=85))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ladder.climb)
            code = await anyio.to_thread.run_sync(lambda: process.wait(50))
            tasks.cancel_scope.cancel()

    assert code == 0
    assert ladder.story.raises == len(questions) == 1


async def test_a_command_that_reads_more_than_its_memory_from_files_is_left_to_it(
    group: Group,
) -> None:
    ladder = ladder_on(group, some_limits(), LadderPlan(terms=LadderTerms()))
    process = group.run(READER)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ladder.climb)
            code = await anyio.to_thread.run_sync(lambda: process.wait(50))
            tasks.cancel_scope.cancel()

    assert code == 0
    assert Rung.ENDED not in ladder.story.path


@pytest.mark.requirement("ladder.stall-is-noticed")
async def test_a_throttle_point_below_what_a_command_needs_is_lifted_and_no_verdict(
    group: Group,
) -> None:
    limits = replace(some_limits(), memory_expected_bytes=16 * MIB)
    ladder = ladder_on(group, limits, LadderPlan(terms=LadderTerms()))
    process = group.run(HOG.format(mib=30))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ladder.climb)
            code = await anyio.to_thread.run_sync(lambda: process.wait(50))
            tasks.cancel_scope.cancel()

    assert code == 0
    assert Rung.ENDED not in ladder.story.path
