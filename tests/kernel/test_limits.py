"""The limits of one command, held by the kernel."""

from pathlib import Path

import anyio
import pytest

from ebpf.attachment import Attachment
from ebpf.capability import CapabilityState, Host, probe_host
from ebpf.errors import ProbeError
from ebpf.executor import Command, CommandResult, EndCause, LocalExecutor
from governor.amounts import Unit
from governor.call import Enforcement
from governor.limits import ExecutionLimits
from tests.ebpf.commands import (
    MIB,
    Pipe,
    holder,
    limits,
    python,
    shell,
    until_held,
    with_time_enough,
)

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]


@pytest.mark.requirement("limit.is-explained")
async def test_a_command_over_its_memory_dies_alone_and_its_peak_is_told(
    executor: LocalExecutor, pipe: Pipe
) -> None:
    neighbour: list[CommandResult] = []

    async def run_neighbour() -> None:
        command = shell(f"read line < {pipe.path}; echo $line")
        neighbour.append(await executor.run("neighbour", command, limits()))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_neighbour)
            hog = python(f"held = b'x' * {200 * MIB}")
            killed = await executor.run("hog", hog, limits(memory_bytes=64 * MIB))
            # The pipe opens only if the neighbour is alive to read it.
            await pipe.send("alive\n")

    assert killed.cause is EndCause.MEMORY
    assert killed.memory_peak_bytes is not None
    assert 60 * MIB < killed.memory_peak_bytes <= 64 * MIB
    assert neighbour[0].cause is EndCause.EXITED
    assert neighbour[0].stdout == b"alive\n"


async def test_the_rest_of_a_tree_is_killed_with_the_process_that_took_the_memory(
    executor: LocalExecutor,
) -> None:
    hog = f"/usr/bin/env python3 -S -c \"held = b'x' * {200 * MIB}\"; sleep 1000"

    with anyio.fail_after(60):
        result = await executor.run("call", shell(hog), limits(memory_bytes=64 * MIB))

    assert result.cause is EndCause.MEMORY
    assert result.signal == 9


async def test_a_command_that_ends_just_after_the_kernels_kill_was_ended_by_memory(
    executor: LocalExecutor,
) -> None:
    hog = f"/usr/bin/env python3 -S -c \"held = b'x' * {200 * MIB}\"; exit 0"

    with anyio.fail_after(60):
        result = await executor.run("call", shell(hog), limits(memory_bytes=64 * MIB))

    assert result.cause is EndCause.MEMORY


async def test_a_process_that_kills_itself_was_not_killed_for_memory(
    executor: LocalExecutor,
) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", shell("kill -KILL $$"), limits())

    assert result.cause is EndCause.SIGNALLED
    assert result.signal == 9


async def test_reading_more_than_the_memory_limit_from_disk_is_no_excess(
    executor: LocalExecutor, open_dir: Path
) -> None:
    script = (
        f"dd if=/dev/zero of={open_dir}/file bs=1M count=100 2>&1 && cat {open_dir}/file | wc -c"
    )

    with anyio.fail_after(60):
        result = await executor.run("call", shell(script), limits(memory_bytes=32 * MIB))

    assert result.cause is EndCause.EXITED
    assert result.stdout.split()[-1] == str(100 * MIB).encode()


async def test_a_fork_bomb_is_refused_its_forks_and_gone_at_the_end(
    executor: LocalExecutor,
) -> None:
    bomb = python("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass\n")

    with anyio.fail_after(60):
        result = await with_time_enough(
            lambda wall_ms: executor.run("call", bomb, limits(pids=16, wall_ms=wall_ms)),
            lambda result: result.pids_limit_hits,
        )

    assert result.cause is EndCause.WALL
    assert result.pids_limit_hits > 0


async def test_a_command_over_its_cpu_time_is_killed_soon_after(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", shell("while :; do :; done"), limits(cpu_ms=300))

    assert result.cause is EndCause.CPU
    assert result.cpu_ms is not None
    # It would have gone on to its time limit, a minute.
    assert 300 < result.cpu_ms < 30_000


async def test_a_cpu_rate_holds_a_command_back(executor: LocalExecutor) -> None:
    spin = shell("while :; do :; done")

    with anyio.fail_after(60):
        result = await executor.run("call", spin, limits(cpu_millis=100, wall_ms=2_000))

    assert result.cause is EndCause.WALL
    assert result.cpu_ms is not None
    # A tenth of however long it ran, and what it may take at once.
    assert result.cpu_ms < result.wall_ms / 10 + 400


async def test_a_command_over_its_wall_time_is_killed(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", shell("trap '' TERM; sleep 1000"), limits(wall_ms=200))

    assert result.cause is EndCause.WALL
    assert result.signal == 9
    assert result.wall_ms >= 200


async def test_a_flood_of_output_is_cut_and_its_producer_killed(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", shell("yes >&2"), limits(output_bytes=100_000))

    assert result.cause is EndCause.OUTPUT
    assert len(result.stderr) == 100_000
    assert result.stderr_dropped_bytes > 0


async def test_input_environment_and_exit_code_pass_unchanged(executor: LocalExecutor) -> None:
    command = Command(
        argv=("/bin/sh", "-c", "/usr/bin/env; cat; exit 7"),
        cwd=None,
        env={"ONLY": "this"},
        stdin=b"input" * 100_000,
    )

    with anyio.fail_after(60):
        result = await executor.run("call", command, limits())

    assert result.exit_code == 7
    assert result.stdout.startswith(b"ONLY=this\nPWD=/\n")
    assert result.stdout.endswith(b"input" * 100_000)
    assert len(result.stdout) == len(b"ONLY=this\nPWD=/\n") + 500_000


async def test_every_limit_is_enforced_and_said_to_be(executor: LocalExecutor) -> None:
    promised = executor.isolation_for(limits(cpu_millis=500), None)

    with anyio.fail_after(60):
        result = await executor.run("call", shell("true"), limits(cpu_millis=500))

    assert promised.enforcement is Enforcement.ENFORCED
    assert promised.contained
    assert result.isolated == promised
    assert result.memory_mib_s is not None
    # This executor has nothing that counts what is sent, whatever the host could do.
    assert set(result.unmeasured) == {Unit.IO_BYTES, Unit.EGRESS_BYTES}


async def test_memory_over_time_is_what_was_held_for_as_long_as_it_was(
    executor: LocalExecutor, pipe: Pipe
) -> None:
    results: list[CommandResult] = []

    async def run() -> None:
        results.append(await executor.run("call", holder(64, pipe), limits()))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await pipe.receive()
            await until_held(executor, "call", mib_s=64)
            await pipe.send("go on")

    (result,) = results
    assert result.memory_mib_s is not None
    assert 64 <= result.memory_mib_s <= 100 * (result.wall_ms / 1000)


def test_a_probe_leaves_nothing_behind(host: Host) -> None:
    again = probe_host()

    assert again.capability("memory").state is CapabilityState.ENFORCED
    own = {hierarchy.own for hierarchy in host.hierarchies.values()}
    assert not [path for place in own for path in place.glob("flyball-probe-*")]


class Failing:
    """Hangs itself on a domain, counts nothing, and cannot be taken off."""

    measures = frozenset[Unit]()
    is_closed = False

    def attach(self, name: str, group: Path, limits: ExecutionLimits) -> Attachment:
        return self

    def measured(self) -> dict[Unit, int]:
        return {}

    async def exceeded(self) -> EndCause:
        await anyio.sleep_forever()
        raise AssertionError

    def ended_by(self) -> None:
        return None

    async def drain(self, *, seconds_max: float) -> None:
        """Wait for nothing."""

    def notes(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self.is_closed = True
        raise ProbeError("refused")


@pytest.mark.usefixtures("groups")
async def test_what_cannot_be_taken_off_a_domain_keeps_neither_it_nor_the_others(
    executor: LocalExecutor,
) -> None:
    both = Failing(), Failing()
    executor._attachers = both

    with anyio.fail_after(60), pytest.raises(ProbeError, match="refused"):
        await executor.run("call", shell("true"), limits())

    assert [one.is_closed for one in both] == [True, True]
