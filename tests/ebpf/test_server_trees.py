"""A server's whole tree ends with its sidecar, where no control groups hold it together."""

import itertools
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from ebpf.domains import observed
from ebpf.errors import DomainError
from ebpf.executor import LocalExecutor
from tests.ebpf.commands import (
    HOSTILE,
    HOSTILE_SLEEPERS,
    PATH,
    Pipe,
    sleepers,
    start_server_owner,
    until_sleeping,
    wait_until_gone,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are of Linux"),
]

_numbers = itertools.count(1)


@pytest.fixture
def token() -> str:
    """Return how long the processes of this test alone sleep."""
    return f"1000.{os.getpid()}{next(_numbers):03}"


@pytest.fixture
def pipe(open_dir: Path) -> Pipe:
    return Pipe(open_dir)


@pytest.mark.requirement("process.none-outlives-sidecar")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
async def test_no_process_of_a_hostile_server_outlives_its_sidecar(
    state_dir: Path, pipe: Pipe, token: str, ending: signal.Signals
) -> None:
    script = HOSTILE.format(to=pipe.path, token=token)
    with anyio.fail_after(60):
        async with await start_server_owner(state_dir, script, backend="rlimit") as owner:
            await pipe.receive()
            await until_sleeping(token, HOSTILE_SLEEPERS)

            owner.send_signal(ending)
            await owner.wait()

        await until_sleeping(token, 0)


async def test_a_server_that_ends_takes_what_it_started_along(
    executor: LocalExecutor, token: str
) -> None:
    script = f"(setsid sleep {token} &); sleep {token} & read line; exit 3"
    argv = executor.servers.wrap("files", ("/bin/sh", "-c", script))
    with anyio.fail_after(60):
        async with await anyio.open_process(argv, env={"PATH": PATH}) as server:
            executor.servers.started("files", server.pid)
            await until_sleeping(token, 2)
            assert server.stdin is not None
            await server.stdin.send(b"\n")
            code = await server.wait()

    assert code == 3
    assert sleepers(token) == 0
    await executor.servers.end("files")


async def test_a_servers_keeper_ends_as_the_server_did_and_hands_on_a_polite_request(
    executor: LocalExecutor, pipe: Pipe
) -> None:
    polite = f"trap 'exit 7' TERM; echo up > {pipe.path}; while :; do sleep 0.02; done"
    codes = []
    for script in (polite, f"echo up > {pipe.path}; exec sleep 1000"):
        argv = executor.servers.wrap("files", ("/bin/sh", "-c", script))
        with anyio.fail_after(60):
            async with await anyio.open_process(argv, env={"PATH": PATH}) as server:
                await pipe.receive()
                server.terminate()
                codes.append(await server.wait())

    assert codes == [7, -signal.SIGTERM]
    await executor.servers.end("files")


async def test_a_server_that_signals_its_own_group_does_not_reach_its_keeper(
    executor: LocalExecutor, token: str
) -> None:
    script = f"(setsid sleep {token} &); kill -KILL 0"
    argv = executor.servers.wrap("files", ("/bin/sh", "-c", script))
    with anyio.fail_after(60):
        async with await anyio.open_process(argv, env={"PATH": PATH}) as server:
            code = await server.wait()

    assert code == -signal.SIGKILL
    assert sleepers(token) == 0
    await executor.servers.end("files")


async def test_the_processes_of_a_server_are_those_of_its_tree(
    executor: LocalExecutor, token: str
) -> None:
    script = f"(setsid sleep {token} &); exec sleep {token}"
    argv = executor.servers.wrap("files", ("/bin/sh", "-c", script))
    with anyio.fail_after(60):
        async with await anyio.open_process(argv, env={"PATH": PATH}) as server:
            executor.servers.started("files", server.pid)
            await until_sleeping(token, 2)
            running = await executor.servers.processes("files")
            await executor.servers.end("files")
            await wait_until_gone(server.pid)
            gone = await executor.servers.processes("files")

    assert len(running) == 2
    assert server.pid not in running  # the keeper is ours
    assert gone == ()


async def test_a_server_whose_domain_would_not_go_can_be_started_and_ended_again(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor.servers.wrap("files", ("true",))
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(observed, "KILL_SECONDS_MAX", 0.0)
        with pytest.raises(DomainError, match="survived"):
            await executor.servers.end("files")

    with anyio.fail_after(60):
        argv = executor.servers.wrap("files", ("true",))
        async with await anyio.open_process(argv, env={"PATH": PATH}) as server:
            executor.servers.started("files", server.pid)
        await executor.servers.end("files")

    assert server.returncode == 0
    assert await executor.servers.processes("files") == ()
    executor.servers.wrap("files", ("true",))  # in a domain that nobody has
    await executor.servers.end("files")
