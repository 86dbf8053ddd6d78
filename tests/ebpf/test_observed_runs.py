"""Commands on a host without control groups, run for real by whoever runs the tests."""

import os
import signal
import sys
from pathlib import Path

import anyio
import psutil
import pytest

from ebpf.errors import (
    CommandNotExecutableError,
    CommandNotFoundError,
    DomainError,
    WorkingDirectoryError,
)
from ebpf.executor import Command, EndCause, LocalExecutor
from governor.call import Enforcement
from tests.ebpf.commands import (
    DAEMON,
    MIB,
    PATH,
    Pipe,
    holder,
    is_running,
    limits,
    python,
    shell,
    start_owner,
    until_held,
    wait_until_gone,
    with_time_enough,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def pipe(open_dir: Path) -> Pipe:
    return Pipe(open_dir)


async def test_a_command_gets_its_input_and_gives_its_output_and_code(
    executor: LocalExecutor,
) -> None:
    with anyio.fail_after(60):
        result = await executor.run(
            "call",
            shell("cat; echo oops >&2; exit 3", stdin=b"in" * MIB),
            limits(output_bytes=8 * MIB),
        )

    assert result.cause is EndCause.EXITED
    assert result.exit_code == 3
    assert result.signal is None
    assert result.stdout == b"in" * MIB
    assert result.stderr == b"oops\n"
    assert result.isolated.enforcement is Enforcement.OBSERVED
    assert result.cpu_ms is not None


async def test_a_keeper_that_was_stopped_ends_with_what_it_kept(
    executor: LocalExecutor, pipe: Pipe
) -> None:
    results = []

    async def run() -> None:
        script = f"echo $PPID > {pipe.path}; sleep 1000"
        results.append(await executor.run("call", shell(script), limits(wall_ms=3_000)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            keeper = int(await pipe.receive())
            os.kill(keeper, signal.SIGSTOP)

    assert results[0].cause is EndCause.WALL
    assert not is_running(keeper)


async def test_input_that_nobody_reads_does_not_hold_the_call(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", shell("exit 0", stdin=b"x" * 4 * MIB), limits())

    assert result.exit_code == 0


async def test_the_environment_is_what_was_given_and_the_marker(executor: LocalExecutor) -> None:
    command = Command(argv=("/usr/bin/env",), cwd=None, env={"A": "é b", "C": ""}, stdin=b"")

    with anyio.fail_after(60):
        result = await executor.run("call", command, limits())

    lines = result.stdout.decode().splitlines()
    assert [line for line in lines if not line.startswith("FLYBALL_DOMAIN=")] == ["A=é b", "C="]
    assert len(lines) == 3


async def test_a_command_inherits_only_its_three_standard_files(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", shell("ls /proc/self/fd"), limits())

    # The fourth is the one that `ls` itself reads the directory through.
    assert result.stdout.split() == [b"0", b"1", b"2", b"3"]


async def test_the_signal_that_a_command_dies_of_is_told(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", shell("kill -USR1 $$"), limits())

    assert result.cause is EndCause.SIGNALLED
    assert result.signal == signal.SIGUSR1
    assert result.exit_code is None


async def test_a_missing_command_is_an_error_and_never_an_output(executor: LocalExecutor) -> None:
    command = Command(argv=("no-such-command",), cwd=None, env={"PATH": PATH}, stdin=b"")

    with anyio.fail_after(60), pytest.raises(CommandNotFoundError) as caught:
        await executor.run("call", command, limits())

    assert caught.value.exit_code == 127
    assert str(caught.value) == "no program `no-such-command` on PATH"


async def test_a_missing_file_is_named(executor: LocalExecutor) -> None:
    command = Command(argv=("/no/such/command",), cwd=None, env={"PATH": PATH}, stdin=b"")

    with anyio.fail_after(60), pytest.raises(CommandNotFoundError, match="no /no/such/command"):
        await executor.run("call", command, limits())


async def test_a_shell_that_answers_127_itself_has_exited(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", shell("no-such-command"), limits())

    assert result.cause is EndCause.EXITED
    assert result.exit_code == 127


async def test_a_file_that_is_no_program_cannot_be_executed(executor: LocalExecutor) -> None:
    command = Command(argv=("/etc/passwd",), cwd=None, env={}, stdin=b"")

    with anyio.fail_after(60), pytest.raises(CommandNotExecutableError) as caught:
        await executor.run("call", command, limits())

    assert caught.value.exit_code == 126


async def test_a_missing_working_directory_is_an_error(executor: LocalExecutor) -> None:
    with anyio.fail_after(60), pytest.raises(WorkingDirectoryError) as caught:
        await executor.run("call", shell("true", cwd="/no/such/directory"), limits())

    assert str(caught.value) == "the directory /no/such/directory does not exist"


async def test_a_name_can_be_used_again_after_a_failed_launch(executor: LocalExecutor) -> None:
    with anyio.fail_after(60), pytest.raises(WorkingDirectoryError):
        await executor.run("call", shell("true", cwd="/no/such/directory"), limits())

    with anyio.fail_after(60):
        assert (await executor.run("call", shell("true"), limits())).exit_code == 0


async def test_a_command_over_its_wall_time_is_killed(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await with_time_enough(
            lambda wall_ms: executor.run(
                "call", shell("echo a; sleep 1000"), limits(wall_ms=wall_ms)
            ),
            lambda result: result.stdout,
        )

    assert result.cause is EndCause.WALL
    assert result.stdout == b"a\n"
    assert result.wall_ms >= 300


async def test_a_flood_of_output_is_cut_and_its_producer_killed(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", shell("yes"), limits(output_bytes=10_000))

    assert result.cause is EndCause.OUTPUT
    assert len(result.stdout) == 10_000
    assert result.stdout_dropped_bytes > 0


async def test_memory_over_time_is_what_was_held_for_as_long_as_it_was(
    executor: LocalExecutor, pipe: Pipe
) -> None:
    results = []

    async def run() -> None:
        results.append(await executor.run("call", holder(64, pipe), limits()))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await pipe.receive()
            await until_held(executor, "call", mib_s=64)
            await pipe.send("go on")

    assert 64 <= results[0].memory_mib_s <= 100 * (results[0].wall_ms / 1000)


async def test_disk_traffic_of_a_whole_tree_is_counted(
    executor: LocalExecutor, open_dir: Path
) -> None:
    if sys.platform != "linux":
        pytest.skip("no keeper adds it up here")
    write = f"dd if=/dev/zero of={open_dir}/file bs=1M count=8 conv=fsync; exit 0"

    with anyio.fail_after(60):
        result = await executor.run("call", shell(f"sh -c '{write}'"), limits())

    assert result.io_bytes is not None
    # A file system in memory has no traffic.
    assert result.io_bytes >= 8 * MIB or result.io_bytes == 0


async def test_a_tree_over_its_memory_is_seen_and_killed(executor: LocalExecutor) -> None:
    hog = python(f"import time; held = b'x' * {200 * MIB}; time.sleep(1000)")

    with anyio.fail_after(60):
        result = await executor.run("call", hog, limits(memory_bytes=100 * MIB))

    assert result.cause is EndCause.MEMORY
    assert result.memory_peak_bytes is not None
    assert result.memory_peak_bytes > 100 * MIB


async def test_a_tree_over_its_cpu_time_is_seen_and_killed(executor: LocalExecutor) -> None:
    """The time is burnt by short-lived children, whose part only their parent still has."""
    burn = "while :; do (i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done); done"

    with anyio.fail_after(60):
        result = await executor.run("call", shell(burn), limits(cpu_ms=500))

    assert result.cause is EndCause.CPU
    assert result.cpu_ms is not None
    assert result.cpu_ms > 500


async def test_too_many_processes_are_seen_and_killed(executor: LocalExecutor) -> None:
    crowd = "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait"

    with anyio.fail_after(60):
        result = await executor.run("call", shell(crowd), limits(pids=5))

    assert result.cause is EndCause.PIDS


async def test_a_daemon_that_left_its_session_parent_and_environment_does_not_survive(
    executor: LocalExecutor, pipe: Pipe
) -> None:
    daemon = DAEMON.format(to=pipe.path).replace("setsid", "env -i /usr/bin/setsid")

    with anyio.fail_after(60):
        result = await executor.run("call", shell(f"{daemon}; cat {pipe.path}"), limits())

    assert result.cause is EndCause.EXITED
    assert not is_running(int(result.stdout))


async def test_a_cancelled_call_leaves_no_process(executor: LocalExecutor, pipe: Pipe) -> None:
    async def run() -> None:
        script = DAEMON.format(to=pipe.path) + "; sleep 1000"
        await executor.run("call", shell(script), limits())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            pid = int(await pipe.receive())
            assert is_running(pid)
            tasks.cancel_scope.cancel()

    assert not is_running(pid)


async def test_a_call_that_is_cancelled_before_it_has_started_leaves_no_process(
    executor: LocalExecutor,
) -> None:
    for delay_seconds in (0, 0.005, 0.01, 0.02, 0.03):
        with anyio.move_on_after(delay_seconds):
            await executor.run("early", shell("exec sleep 98765"), limits())

    commands = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert ["sleep", "98765"] not in commands


async def test_two_calls_cannot_share_a_name(executor: LocalExecutor, pipe: Pipe) -> None:
    async def run() -> None:
        await executor.run("call", shell(f"cat {pipe.path}"), limits())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(DomainError):
                await executor.run("call", shell("true"), limits())
            await pipe.send("")


@pytest.mark.requirement("process.none-outlives-sidecar")
async def test_a_daemon_that_left_everything_dies_with_its_killed_sidecar(
    state_dir: Path, pipe: Pipe
) -> None:
    daemon = DAEMON.format(to=pipe.path).replace("setsid", "env -i /usr/bin/setsid")
    async with await start_owner(state_dir, daemon, backend="rlimit") as owner:
        with anyio.fail_after(60):
            pid = int(await pipe.receive())
        owner.kill()

    # No sweep: its keeper ends it.
    await wait_until_gone(pid)


async def test_a_sweep_kills_what_a_sidecar_left_that_was_killed_with_its_keepers(
    executor: LocalExecutor, state_dir: Path, pipe: Pipe
) -> None:
    script = DAEMON.format(to=pipe.path)
    async with await start_owner(state_dir, script, backend="rlimit") as owner:
        with anyio.fail_after(60):
            pid = int(await pipe.receive())
        keepers = psutil.Process(owner.pid).children()
        owner.send_signal(signal.SIGSTOP)  # it must not notice, and tidy up
        for keeper in keepers:
            keeper.kill()
        owner.kill()
    assert is_running(pid)

    with anyio.fail_after(60):
        swept = await executor.sweep()
        # Killed, it has no environment any more by which to be found, before it has ended.
        await wait_until_gone(pid)

    assert swept == 1


async def test_a_sweep_leaves_other_instances_and_its_own_running_calls_alone(
    executor: LocalExecutor, pipe: Pipe
) -> None:
    async def run() -> None:
        result = await executor.run("call", shell(f"cat {pipe.path}"), limits())
        assert result.exit_code == 0

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            assert await executor.sweep() == 0
            await pipe.send("")


async def test_a_server_keeps_its_streams_and_its_tree_ends_with_it(
    executor: LocalExecutor, pipe: Pipe
) -> None:
    script = DAEMON.format(to=pipe.path) + "; cat"
    argv = executor.servers.wrap("files", ("/bin/sh", "-c", script))
    async with await anyio.open_process(argv, env={"PATH": PATH}) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        with anyio.fail_after(60):
            daemon = int(await pipe.receive())
            await server.stdin.send(b"hello")
            assert await server.stdout.receive() == b"hello"
            assert is_running(daemon)

            await executor.servers.end("files")
            await server.wait()

    assert not is_running(daemon)


async def test_ending_an_unknown_server_does_nothing(executor: LocalExecutor) -> None:
    await executor.servers.end("never-started")

    assert psutil.pid_exists(os.getpid())
