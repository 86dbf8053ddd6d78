"""The spawner: what its clones are, what they are not, and what its own end changes."""

import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from ebpf.domains.domain import Entry
from ebpf.errors import CommandNotFoundError, LaunchError, WorkingDirectoryError
from ebpf.executor import Command, CommandResult, EndCause, LocalExecutor
from ebpf.launching import launch
from ebpf.spawning import ORDERS_MAX, Spawner, can_spawn
from tests.ebpf.commands import (
    PATH,
    Pipe,
    is_running,
    limits,
    shell,
    start_owner,
    wait_until_gone,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not can_spawn(), reason="this system has no spawner"),
]


@pytest.fixture
def pipe(open_dir: Path) -> Pipe:
    return Pipe(open_dir)


@pytest.fixture
async def guarded(executor: LocalExecutor) -> AsyncIterator[LocalExecutor]:
    async with executor.guarded():
        yield executor


def spawner_of(executor: LocalExecutor) -> Spawner:
    assert executor._spawner is not None
    return executor._spawner


def pid_of(executor: LocalExecutor) -> int:
    pid = spawner_of(executor).pid
    assert pid is not None
    return pid


async def said(executor: LocalExecutor, script: str) -> str:
    with anyio.fail_after(60):
        return (await executor.run("call", shell(script), limits())).stdout.decode()


async def until_stopped(pid: int) -> None:
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        await anyio.sleep(0.005)


async def test_every_command_comes_of_one_small_process(guarded: LocalExecutor) -> None:
    before = pid_of(guarded)

    await said(guarded, "true")
    await said(guarded, "true")

    assert pid_of(guarded) == before
    assert psutil.Process(before).memory_info().rss < 24 << 20
    assert psutil.Process(before).num_threads() == 1


async def test_a_clone_is_the_sidecars_child_and_not_the_spawners(guarded: LocalExecutor) -> None:
    # Without control groups a command has a keeper above it, which is the clone.
    keepers_parent = await said(guarded, "cut -d ' ' -f 4 /proc/$PPID/stat")

    assert int(keepers_parent) == os.getpid()
    assert psutil.Process(pid_of(guarded)).children() == []


@pytest.mark.requirement("spawner.end-is-survived")
async def test_a_command_goes_on_when_the_spawner_is_killed(
    guarded: LocalExecutor, pipe: Pipe
) -> None:
    results: list[CommandResult] = []

    async def run() -> None:
        script = f"echo up > {pipe.path}; cat {pipe.path}; exit 7"
        results.append(await guarded.run("call", shell(script), limits()))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await pipe.receive()
            os.kill(pid_of(guarded), signal.SIGKILL)
            await pipe.send("still here")

    assert results[0].cause is EndCause.EXITED
    assert results[0].exit_code == 7
    assert results[0].stdout == b"still here"


@pytest.mark.requirement("spawner.end-is-survived")
async def test_a_killed_spawner_is_replaced_for_the_next_command(guarded: LocalExecutor) -> None:
    before = pid_of(guarded)
    os.kill(before, signal.SIGKILL)

    assert await said(guarded, "echo a") == "a\n"
    assert pid_of(guarded) != before
    assert not psutil.pid_exists(before)


@pytest.mark.requirement("spawner.end-is-survived")
async def test_orders_that_a_killed_spawner_had_not_carried_out_go_to_the_next(
    guarded: LocalExecutor, open_dir: Path
) -> None:
    before = pid_of(guarded)
    os.kill(before, signal.SIGSTOP)
    await until_stopped(before)
    results: list[CommandResult] = []

    async def run(number: int) -> None:
        command = shell(f"echo {number} >> {open_dir}/ran; exit {number}")
        results.append(await guarded.run(f"call-{number}", command, limits()))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(run, number)
            await anyio.wait_all_tasks_blocked()
            os.kill(before, signal.SIGKILL)

    assert sorted(result.exit_code or 0 for result in results) == [0, 1, 2, 3, 4]
    assert sorted((open_dir / "ran").read_text().split()) == ["0", "1", "2", "3", "4"]


async def test_more_orders_than_a_spawner_may_hold_wait_in_the_sidecar(
    guarded: LocalExecutor,
) -> None:
    before = pid_of(guarded)
    os.kill(before, signal.SIGSTOP)
    await until_stopped(before)
    codes: list[int | None] = []

    async def run(number: int) -> None:
        codes.append((await guarded.run(f"call-{number}", shell("true"), limits())).exit_code)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(ORDERS_MAX + 8):
                tasks.start_soon(run, number)
            await anyio.wait_all_tasks_blocked()
            waiting = spawner_of(guarded).room.statistics().tasks_waiting
            os.kill(before, signal.SIGCONT)

    assert waiting == 8
    assert codes == [0] * (ORDERS_MAX + 8)


async def test_a_call_that_is_cancelled_while_it_is_cloned_leaves_no_process(
    guarded: LocalExecutor,
) -> None:
    before = pid_of(guarded)
    # A test that failed before may have left an executor, and that its spawner.
    children = set(psutil.Process().children())
    os.kill(before, signal.SIGSTOP)
    await until_stopped(before)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(guarded.run, "call", shell("exec sleep 98764"), limits())
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            os.kill(before, signal.SIGCONT)

    lines = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert ["sleep", "98764"] not in lines
    assert not set(psutil.Process().children()) - children


async def test_a_spawner_that_cannot_start_is_an_error(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")

    with anyio.fail_after(60), pytest.raises(LaunchError):
        await executor.run("call", shell("true"), limits())

    monkeypatch.undo()
    assert await said(executor, "echo a") == "a\n"


async def test_a_sidecar_that_may_open_nothing_more_starts_no_command(
    guarded: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> tuple[int, int]:
        raise OSError(errno.EMFILE, "none left")

    monkeypatch.setattr(os, "pipe", refused)

    with anyio.fail_after(60), pytest.raises(LaunchError):
        await guarded.run("call", shell("true"), limits())

    monkeypatch.undo()
    assert await said(guarded, "echo a") == "a\n"


async def test_a_group_that_is_gone_is_an_error_of_the_domain(executor: LocalExecutor) -> None:
    entry = Entry(join=("/proc/self/no-such-group/cgroup.procs",))

    with anyio.fail_after(60), pytest.raises(LaunchError, match="domain: No such file"):
        await launch(
            shell("true"),
            entry=entry,
            account=None,
            carve=None,
            system_calls=None,
            spawner=spawner_of(executor),
        )


async def test_a_file_that_the_sidecar_lets_others_inherit_is_not_the_commands(
    executor: LocalExecutor,
) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)  # noqa: FBT003 - its signature
    try:
        shown = await said(executor, "ls /proc/self/fd")
    finally:
        os.close(reading)
        os.close(writing)

    # The fourth is the one that `ls` itself reads the directory through.
    assert shown.split() == ["0", "1", "2", "3"]


@pytest.fixture
def deaf() -> Iterator[None]:
    """Block and ignore some signals in this process, as somebody who started it may have."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGPIPE)}
    for number in before:
        signal.signal(number, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    for number, handler in before.items():
        signal.signal(number, handler)


# Signals 32 and 33: glibc's `posix_spawn` leaves the first ignored in what it starts (as `make`
# does this suite), and no program can set what becomes of them through its own C library.
OF_THE_C_LIBRARY = 0b11 << 31


@pytest.mark.usefixtures("deaf")
async def test_a_command_neither_blocks_nor_ignores_a_signal(executor: LocalExecutor) -> None:
    lines = (await said(executor, "exec cat /proc/self/status")).splitlines()

    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert int(status["SigBlk"], 16) == 0
    assert int(status["SigIgn"], 16) & ~OF_THE_C_LIBRARY == 0


@pytest.mark.requirement("command.secrets-stay-in")
async def test_the_environment_of_a_command_is_in_no_process_but_its_own(
    guarded: LocalExecutor, pipe: Pipe
) -> None:
    secret = "s3cret-of-the-command"
    env = {"PATH": PATH, "SECRET": secret}

    async def run() -> None:
        script = f"echo $$ > {pipe.path}; exec cat {pipe.path}"
        await guarded.run("call", shell(script, env=env), limits())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            command = int(await pipe.receive())
            below = {process.pid for process in psutil.Process().children(recursive=True)}
            show_it = {pid for pid in below | {os.getpid()} if shows(pid, secret)}
            await pipe.send("")

    assert pid_of(guarded) in below
    assert show_it == {command}


def shows(pid: int, secret: str) -> bool:
    """Tell whether a process has a secret where others may look."""
    files = (Path(f"/proc/{pid}/{name}") for name in ("environ", "cmdline"))
    try:
        return any(secret.encode() in file.read_bytes() for file in files)
    except (FileNotFoundError, ProcessLookupError):  # what another test left has ended
        return False


async def test_a_command_is_killed_before_the_sidecar_when_the_host_is_short_of_memory(
    executor: LocalExecutor,
) -> None:
    own = score_of_this_process()

    scores = await said(executor, "cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj")

    command, keeper = map(int, scores.split())
    assert command == max(own, 500)
    assert keeper == own


def score_of_this_process() -> int:
    return int(Path("/proc/self/oom_score_adj").read_text())


@pytest.mark.requirement("process.none-outlives-sidecar")
async def test_neither_spawner_nor_command_is_left_of_a_killed_sidecar(
    state_dir: Path, pipe: Pipe
) -> None:
    async with await start_owner(state_dir, f"echo $$ > {pipe.path}", backend="rlimit") as owner:
        with anyio.fail_after(60):
            command = int(await pipe.receive())
            # The shell speaks before it starts what it waits for.
            while not psutil.Process(command).children():
                await anyio.sleep(0.01)
        below = psutil.Process(owner.pid).children(recursive=True)
        owner.kill()

    for process in below:
        await wait_until_gone(process.pid)

    assert len(below) == 4  # the spawner, the keeper, the shell and what it waits for
    assert not is_running(command)


async def test_without_a_spawner_an_interpreter_becomes_the_command(
    executor: LocalExecutor,
) -> None:
    executor._spawner = None

    assert await said(executor, "echo a") == "a\n"
    with anyio.fail_after(60), pytest.raises(WorkingDirectoryError):
        await executor.run("call", shell("true", cwd="/no/such/directory"), limits())
    missing = Command(argv=("no-such-command",), cwd=None, env={"PATH": PATH}, stdin=b"")
    with anyio.fail_after(60), pytest.raises(CommandNotFoundError):
        await executor.run("call", missing, limits())
