"""No process and no control group outlives its call, whatever ended it."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ebpf.capability import Host
from ebpf.errors import CommandNotFoundError, DomainError, WorkingDirectoryError
from ebpf.executor import Command, EndCause, LocalExecutor
from tests.ebpf.commands import (
    DAEMON,
    PATH,
    Pipe,
    is_running,
    limits,
    shell,
    start_owner,
    wait_until_gone,
)

pytestmark = [pytest.mark.kernel, pytest.mark.anyio, pytest.mark.usefixtures("groups")]


HIERARCHIES = ("memory", "pids", "cpu", "unified")
Groups = Callable[[str], list[Path]]


@pytest.mark.requirement("process.none-outlives-call")
async def test_a_daemon_that_left_its_session_and_ignores_signals_does_not_survive(
    executor: LocalExecutor, pipe: Pipe, groups: Groups
) -> None:
    daemon = DAEMON.format(to=pipe.path)

    with anyio.fail_after(60):
        result = await executor.run("daemon", shell(f"{daemon}; cat {pipe.path}"), limits())

    assert result.cause is EndCause.EXITED
    assert not is_running(int(result.stdout))
    assert not groups("daemon")


async def test_a_cancelled_call_leaves_no_process_and_no_group(
    executor: LocalExecutor, pipe: Pipe, groups: Groups
) -> None:
    async def run() -> None:
        script = DAEMON.format(to=pipe.path) + "; sleep 1000"
        await executor.run("cancelled", shell(script), limits())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            pid = int(await pipe.receive())
            assert is_running(pid)
            assert groups("cancelled")
            tasks.cancel_scope.cancel()

    assert not is_running(pid)
    assert not groups("cancelled")


async def test_a_call_that_is_cancelled_before_it_has_started_leaves_no_group(
    executor: LocalExecutor, groups: Groups
) -> None:
    for delay_seconds in (0, 0.002, 0.005, 0.01, 0.015, 0.02):
        with anyio.move_on_after(delay_seconds):
            await executor.run("early", shell("sleep 1000"), limits())

    assert not groups("early")


async def test_a_wall_limit_that_passes_before_the_command_has_started_holds_nobody(
    executor: LocalExecutor, groups: Groups
) -> None:
    with anyio.fail_after(60):
        for wall_ms in (1, 3, 5, 8, 12, 16):
            result = await executor.run("brief", shell("sleep 1000"), limits(wall_ms=wall_ms))
            assert result.cause is EndCause.WALL

    assert not groups("brief")


async def test_a_failed_launch_is_an_error_and_leaves_no_group(
    executor: LocalExecutor, groups: Groups
) -> None:
    missing = Command(argv=("no-such-command",), cwd=None, env={"PATH": PATH}, stdin=b"")

    with anyio.fail_after(60):
        with pytest.raises(CommandNotFoundError):
            await executor.run("missing", missing, limits())
        with pytest.raises(WorkingDirectoryError):
            await executor.run("missing", shell("true", cwd="/no/such/place"), limits())

    assert not groups("missing")


async def test_a_limit_that_the_kernel_refuses_is_an_error_and_leaves_no_group(
    executor: LocalExecutor, groups: Groups
) -> None:
    with pytest.raises(DomainError, match=r"pids\.max"):
        await executor.run("refused", shell("true"), limits(pids=-5))

    assert not groups("refused")


async def test_twenty_calls_at_once_leave_no_group(executor: LocalExecutor, groups: Groups) -> None:
    codes: list[int | None] = []

    async def run(number: int) -> None:
        result = await executor.run(f"many-{number}", shell(f"exit {number}"), limits())
        codes.append(result.exit_code)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(run, number)

    assert sorted(code for code in codes if code is not None) == list(range(20))
    assert not any(groups(f"many-{number}") for number in range(20))


async def test_a_sweep_kills_what_a_killed_sidecar_left_and_nothing_else(
    *,
    executor: LocalExecutor,
    host: Host,
    groups: Groups,
    state_dir: Path,
    pipe: Pipe,
    open_dir: Path,
) -> None:
    other_state = open_dir / "other"
    other_state.mkdir(mode=0o700)
    stranger = LocalExecutor(host=host, state_dir=other_state, user="nobody")
    script = DAEMON.format(to=pipe.path)
    async with await start_owner(state_dir, script, backend="hybrid") as owner:
        with anyio.fail_after(60):
            pid = int(await pipe.receive())
        owner.kill()
    assert is_running(pid)

    with anyio.fail_after(60):
        by_stranger = await stranger.sweep()
        survived = is_running(pid)
        by_heir = await executor.sweep()

    assert by_stranger == 0
    assert survived
    assert by_heir == 1
    assert not is_running(pid)
    assert not groups("left")


async def test_a_command_dies_with_its_sidecar(
    executor: LocalExecutor, state_dir: Path, pipe: Pipe
) -> None:
    script = f"trap '' TERM HUP; echo $$ > {pipe.path}"
    async with await start_owner(state_dir, script, backend="hybrid") as owner:
        with anyio.fail_after(60):
            pid = int(await pipe.receive())
        owner.kill()

    # No sweep yet: what ends it is the kernel's signal at the parent's death.
    await wait_until_gone(pid)
    assert await executor.sweep() == 1


async def test_a_sweep_leaves_running_calls_alone(executor: LocalExecutor, pipe: Pipe) -> None:
    async def run() -> None:
        result = await executor.run("call", shell(f"cat {pipe.path}"), limits())
        assert result.exit_code == 0

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            assert await executor.sweep() == 0
            await pipe.send("")


async def test_a_server_runs_in_its_domain_and_its_tree_ends_with_it(
    executor: LocalExecutor, groups: Groups, pipe: Pipe
) -> None:
    script = DAEMON.format(to=pipe.path) + "; cat /proc/self/cgroup; cat"
    argv = executor.servers.wrap("files", ("/bin/sh", "-c", script))
    async with await anyio.open_process(argv, env={"PATH": PATH}) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        with anyio.fail_after(60):
            daemon = int(await pipe.receive())
            placed = await server.stdout.receive()
            await server.stdin.send(b"hello")
            answered = await server.stdout.receive()
            await executor.servers.end("files")
            await server.wait()

    assert placed.count(b"/_servers/files\n") == len(HIERARCHIES)
    assert answered == b"hello"
    assert not is_running(daemon)
    assert not groups("files")


async def test_a_servers_environment_is_what_its_client_gave(executor: LocalExecutor) -> None:
    argv = executor.servers.wrap("env", ("/usr/bin/env",))

    async with await anyio.open_process(argv, env={"ONLY": "this"}) as server:
        assert server.stdout is not None
        with anyio.fail_after(60):
            seen = await server.stdout.receive()
    await executor.servers.end("env")

    assert seen == b"ONLY=this\n"


async def test_a_server_can_be_started_again_under_its_name(executor: LocalExecutor) -> None:
    argv = executor.servers.wrap("again", ("/bin/true",))

    for _ in range(2):
        async with await anyio.open_process(argv) as server:
            with anyio.fail_after(60):
                assert await server.wait() == 0
    assert executor.servers.wrap("again", ("/bin/true",)) == argv
    await executor.servers.end("again")


async def test_a_server_whose_command_is_missing_says_so_and_ends_as_in_a_shell(
    executor: LocalExecutor,
) -> None:
    argv = executor.servers.wrap("missing", ("no-such-server",))

    async with await anyio.open_process(argv, env={"PATH": PATH}) as server:
        assert server.stderr is not None
        with anyio.fail_after(60):
            said = await server.stderr.receive()
            code = await server.wait()

    assert code == 127
    assert b"no-such-server" in said
    await executor.servers.end("missing")
