"""What a command of a sidecar that is root cannot do."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from ebpf.capability import Host
from ebpf.domains.domain import Entry
from ebpf.errors import CommandNotFoundError
from ebpf.executor import Command, LocalExecutor
from ebpf.launching import agent_argv
from tests.ebpf.commands import ROOT, Pipe, limits, shell
from tests.kernel.other_user import NOBODY, interpreter_for, run_as

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]


async def said(executor: LocalExecutor, script: str) -> bytes:
    with anyio.fail_after(60):
        result = await executor.run("call", shell(script), limits())
    return result.stdout


async def code(executor: LocalExecutor, script: str) -> int | None:
    with anyio.fail_after(60):
        return (await executor.run("call", shell(script), limits())).exit_code


@pytest.fixture
def groups_to_lose() -> Iterator[None]:
    """Give this process groups that its commands must not have."""
    before = os.getgroups()
    os.setgroups([4, 27])
    yield
    os.setgroups(before)


@pytest.mark.usefixtures("groups_to_lose")
async def test_a_command_is_another_user_without_any_privilege(executor: LocalExecutor) -> None:
    lines = (await said(executor, "cat /proc/self/status")).decode().splitlines()

    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    assert set(status["Uid"]) == {"65534"}
    assert set(status["Gid"]) == {"65534"}
    assert status["Groups"] == []
    assert status["NoNewPrivs"] == ["1"]
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind][0], 16) == 0


async def test_a_command_cannot_move_itself_or_lift_its_limits(
    executor: LocalExecutor, host: Host
) -> None:
    for name, hierarchy in host.hierarchies.items():
        assert await code(executor, f"echo 0 > {hierarchy.mount}/cgroup.procs"), name
        own = f"{hierarchy.mount}$(grep -E ':({name}|):' /proc/self/cgroup | tail -1 | cut -d: -f3)"
        assert await code(executor, f"echo 0 > {own}/../cgroup.procs"), name
    memory = host.hierarchies["memory"].mount
    own = f"{memory}$(grep :memory: /proc/self/cgroup | cut -d: -f3)"
    assert (await said(executor, f"cat {own}/memory.limit_in_bytes")).strip() == b"268435456"
    assert await code(executor, f"echo -1 > {own}/memory.limit_in_bytes")


async def test_a_command_cannot_read_the_state_directory(
    executor: LocalExecutor, state_dir: Path
) -> None:
    (state_dir / "token").write_text("s3cret")

    assert await said(executor, f"cat {state_dir}/token; ls {state_dir}") == b""


async def test_landlock_hides_the_state_directory_where_its_mode_does_not(host: Host) -> None:
    """Beside a directory that only root can write, both fences stand."""
    if not host.landlock_abi:
        pytest.skip("this kernel has no Landlock")
    state_dir = Path("/var/lib") / f"flyball-test-{os.getpid()}"
    state_dir.mkdir(mode=0o755)
    try:
        (state_dir / "token").write_text("s3cret")
        executor = LocalExecutor(host=host, state_dir=state_dir, user="nobody")

        seen = await said(executor, f"cat {state_dir}/token")
        usable = await said(executor, "echo x > /tmp/$$ && cat /tmp/$$; rm /tmp/$$; ls -d /")
        await executor.sweep()
    finally:
        (state_dir / "token").unlink()
        state_dir.rmdir()

    assert seen == b""
    assert usable == b"x\n/\n"


async def test_a_command_can_neither_read_nor_signal_the_sidecar(executor: LocalExecutor) -> None:
    pid = os.getpid()

    assert await said(executor, f"cat /proc/{pid}/environ; ls /proc/{pid}/fd") == b""
    assert await code(executor, f"kill -0 {pid}")


async def test_one_command_cannot_signal_another_of_the_same_user(
    executor: LocalExecutor, host: Host, pipe: Pipe
) -> None:
    if host.landlock_abi < 6:
        pytest.skip("Landlock holds signals back from version 6 on")

    async def run() -> None:
        await executor.run("other", shell(f"echo $$ > {pipe.path}; cat {pipe.path}"), limits())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            pid = int(await pipe.receive())
            refused = await code(executor, f"kill -0 {pid}")
            await pipe.send("")

    assert refused


async def test_a_set_uid_program_gives_nothing_back(
    executor: LocalExecutor, open_dir: Path
) -> None:
    program = open_dir / "id"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)

    assert await said(executor, f"{program} -u") == b"65534\n"


async def test_a_command_cannot_raise_its_resource_limits(executor: LocalExecutor) -> None:
    assert await said(executor, "ulimit -c; ulimit -n") == b"0\n1024\n"
    assert await code(executor, "ulimit -H -c 1 2>/dev/null")


@pytest.mark.usefixtures("host")
def test_the_whole_suite_of_observed_domains_passes_for_a_sidecar_that_is_not_root() -> None:
    python = interpreter_for(65534, "pytest", "hypothesis")
    if python is None:
        pytest.skip("no Python 3.11 that another user can run finds the test tools")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", "not kernel"]

    assert run_as(65534, [python, "-m", "pytest", *options, str(ROOT / "tests" / "ebpf")]) == 0


async def test_a_program_is_missing_also_where_a_directory_to_look_in_is_closed(
    executor: LocalExecutor, state_dir: Path
) -> None:
    command = Command(argv=("nosuchprog",), cwd=None, env={"PATH": f"{state_dir}:/usr/bin"})

    with anyio.fail_after(60), pytest.raises(CommandNotFoundError, match="`nosuchprog` on PATH"):
        await executor.run("call", command, limits())


@pytest.mark.usefixtures("host")
async def test_an_agent_of_another_user_starts_with_the_environment_that_it_was_given() -> None:
    argv = agent_argv(
        ["sh", "-c", 'id -u; echo "$GIVEN"'], Entry(), account=(NOBODY, NOBODY), carve=None
    )
    env = {"PATH": "/usr/bin:/bin", "GIVEN": "here"}

    ended = subprocess.run(  # noqa: ASYNC221 - it is this thread's child
        argv, env=env, cwd="/", capture_output=True, timeout=60, check=False
    )

    assert ended.stdout == b"65534\nhere\n", ended.stderr
