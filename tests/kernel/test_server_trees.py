"""A server's whole tree ends with its sidecar, whatever ends that, where groups hold it."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import psutil
import pytest

from ebpf.capability import Host
from ebpf.domains.groups import remove_group
from ebpf.domains.tree import GroupDomains
from ebpf.executor import LocalExecutor
from tests.ebpf.commands import (
    HOSTILE,
    HOSTILE_SLEEPERS,
    PATH,
    Pipe,
    sleepers,
    start_server_owner,
    until_sleeping,
)

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

MEMORY_BYTES = 128 << 20


@pytest.fixture
def token() -> str:
    """Return how long the processes of this test alone sleep."""
    return f"1000.{os.getpid()}999"


@pytest.fixture
def tight(host: Host) -> Iterator[Path]:
    """Yield a control group with little memory."""
    group = host.hierarchies["memory"].own / f"flyball-test-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(MEMORY_BYTES))
    yield group
    assert remove_group(group), "something is left in the group"


def bases(host: Host, state_dir: Path) -> list[Path]:
    """Return the groups that a sidecar of this state directory has made in any hierarchy."""
    domains = LocalExecutor(host=host, state_dir=state_dir, user="nobody")._domains
    assert isinstance(domains, GroupDomains)
    return [
        path
        for hierarchy in host.hierarchies.values()
        for path in hierarchy.mount.rglob(f"{domains._prefix}*")
    ]


@pytest.mark.requirement("process.none-outlives-sidecar")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
async def test_no_process_and_no_group_of_a_hostile_server_outlives_its_sidecar(
    host: Host, state_dir: Path, pipe: Pipe, token: str, ending: signal.Signals
) -> None:
    script = HOSTILE.format(to=pipe.path, token=token)
    with anyio.fail_after(60):
        async with await start_server_owner(state_dir, script, backend="hybrid") as owner:
            await pipe.receive()
            await until_sleeping(token, HOSTILE_SLEEPERS)
            assert bases(host, state_dir)

            owner.send_signal(ending)
            await owner.wait()

        await until_sleeping(token, 0)
        while bases(host, state_dir):
            await anyio.sleep(0.02)


@pytest.mark.requirement("process.none-outlives-sidecar")
@pytest.mark.parametrize("backend", ["hybrid", "rlimit"])
async def test_no_process_outlives_a_sidecar_that_the_kernel_kills_for_its_memory(
    *, state_dir: Path, pipe: Pipe, token: str, tight: Path, backend: str
) -> None:
    script = HOSTILE.format(to=pipe.path, token=token)
    with anyio.fail_after(60):
        owner = await start_server_owner(state_dir, script, backend=backend, enter=tight)
        async with owner:
            await pipe.receive()
            await until_sleeping(token, HOSTILE_SLEEPERS)

            owner.send_signal(signal.SIGUSR1)
            code = await owner.wait()

        await until_sleeping(token, 0)
        while (tight / "cgroup.procs").read_text():
            await anyio.sleep(0.02)

    assert code == -signal.SIGKILL
    assert "oom_kill 0" not in (tight / "memory.oom_control").read_text()


async def test_a_warden_that_is_killed_is_replaced(state_dir: Path, pipe: Pipe, token: str) -> None:
    script = HOSTILE.format(to=pipe.path, token=token)
    with anyio.fail_after(60):
        async with await start_server_owner(state_dir, script, backend="hybrid") as owner:
            await pipe.receive()
            await until_sleeping(token, HOSTILE_SLEEPERS)
            first = warden_of(owner.pid)
            assert first is not None
            first.send_signal(signal.SIGTERM)  # is ignored
            first.kill()
            while (second := warden_of(owner.pid)) in (None, first):
                await anyio.sleep(0.02)
            owner.kill()

        await until_sleeping(token, 0)
        assert second is not None
        await anyio.to_thread.run_sync(second.wait, 60)


def warden_of(pid: int) -> psutil.Process | None:
    for child in psutil.Process(pid).children():
        with suppress(psutil.NoSuchProcess):
            if any("warden" in word for word in child.cmdline()):
                return child
    return None


async def test_a_warden_goes_with_a_sidecar_that_ends_in_order(
    executor: LocalExecutor, token: str, groups: Callable[[str], list[Path]]
) -> None:
    with anyio.fail_after(60):
        async with executor.guarded():
            argv = executor.servers.wrap("files", ("/bin/sh", "-c", f"exec sleep {token}"))
            async with await anyio.open_process(argv, env={"PATH": PATH}):
                await until_sleeping(token, 1)
                here = warden_of(os.getpid())
                await executor.servers.end("files")
        left = warden_of(os.getpid())

    assert here is not None
    assert left is None
    assert sleepers(token) == 0
    assert groups("files") == []
