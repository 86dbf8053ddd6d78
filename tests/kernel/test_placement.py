"""Commands come to be inside their domain: there is no moment in which they are elsewhere."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio
import pytest

from ebpf.capability import Host
from ebpf.executor import LocalExecutor
from ebpf.launcher import linux
from tests.ebpf.commands import limits, shell

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

CALLS = 200
AT_ONCE = 10
CONTROLLERS = ("memory", "pids", "cpu")


def memberships(text: str) -> Mapping[str, str]:
    """Return in which group a process is, by controller; `""` is the v2 hierarchy."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, group = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), group)
    return found


def groups_of(pid: int) -> Mapping[str, str]:
    return memberships(Path(f"/proc/{pid}/cgroup").read_text())


def program_of(pid: int) -> str:
    return str(Path(f"/proc/{pid}/exe").readlink())


# Its first instructions fork twice, into another session; the last one tells where it is.
DETACHING = "(setsid sh -c 'cat /proc/self/cgroup > {to}.child' &); exec cat /proc/self/cgroup"


@pytest.mark.requirement("command.born-inside")
async def test_no_command_and_nothing_that_it_detaches_is_ever_outside_its_domain(
    executor: LocalExecutor, open_dir: Path
) -> None:
    outside: list[str] = []
    seen = 0
    room = anyio.CapacityLimiter(AT_ONCE)

    async def run(name: str) -> None:
        nonlocal seen
        async with room:
            script = DETACHING.format(to=open_dir / name)
            result = await executor.run(name, shell(script), limits())
        detached = open_dir / f"{name}.child"
        # What was detached may have been killed with the domain before it could tell.
        told = detached.read_text() if detached.exists() else ""
        for text in filter(None, (result.stdout.decode(), told)):
            seen += 1
            groups = memberships(text)
            outside.extend(
                f"{name}: {controller}: {groups[controller]}"
                for controller in (*CONTROLLERS, "")
                if not groups[controller].endswith(f"/{name}")
            )

    with anyio.fail_after(240):
        async with executor.guarded(), anyio.create_task_group() as tasks:
            for number in range(CALLS):
                tasks.start_soon(run, f"call-{number}")

    assert seen > CALLS
    assert outside == []


@pytest.mark.requirement("command.born-inside")
async def test_a_clone_is_in_its_group_before_it_runs_at_all(executor: LocalExecutor) -> None:
    """Where its group is frozen it never runs, and is there nevertheless."""
    with anyio.fail_after(60):
        async with executor.guarded(), anyio.create_task_group() as tasks:
            call = shell("exec sleep 1000")

            async def run() -> None:
                await executor.run("born", call, limits(), is_frozen=True)

            tasks.start_soon(run)
            domain = None
            while domain is None or not domain.members():
                await anyio.sleep(0.005)
                pause = executor._pauses.get("born")
                domain = None if pause is None else pause._domain
            (pid,) = domain.members()
            groups, program = groups_of(pid), program_of(pid)
            tasks.cancel_scope.cancel()

    assert groups[""].endswith("/born")
    assert not groups["memory"].endswith("/born")
    assert "python" in program


def test_a_process_can_be_born_in_a_group_of_another_one(host: Host) -> None:
    group = host.hierarchies["unified"].own / f"flyball-test-{os.getpid()}"
    group.mkdir()
    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        _clone_once(group, writing)
    os.close(writing)
    os.waitpid(middle, 0)

    told = os.read(reading, 4096).decode()
    os.close(reading)
    pid, is_born_in, groups = told.split("|")
    os.waitpid(int(pid), 0)
    group.rmdir()

    assert is_born_in == "True"
    assert memberships(groups)[""].endswith(group.name)


def _clone_once(group: Path, writing: int) -> None:
    """Clone a child of this process's parent, which tells where it is."""
    try:
        directory = os.open(group, os.O_PATH | os.O_DIRECTORY)
        pid, is_born_in = linux.clone_sibling(directory)
        if pid == 0:
            own = Path("/proc/self/cgroup").read_text()
            os.write(writing, f"{os.getpid()}|{is_born_in}|{own}".encode())
    finally:
        os._exit(0)


@pytest.fixture
def hidden_state() -> Iterator[Path]:
    """Yield a state directory that only Landlock hides, with a file in it."""
    path = Path("/var/lib") / f"flyball-test-{os.getpid()}"
    path.mkdir(mode=0o755)
    (path / "token").write_text("s3cret")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def beside(hidden_state: Path) -> Iterator[Path]:
    """Yield the path of what a test makes beside that."""
    path = hidden_state.with_name(f"{hidden_state.name}-beside")
    yield path
    path.unlink(missing_ok=True)


async def test_what_is_made_beside_a_hidden_directory_is_open_to_the_next_command(
    host: Host, hidden_state: Path, beside: Path
) -> None:
    """The rules are kept from call to call, as long as they would be the same."""
    if not host.landlock_abi:
        pytest.skip("this kernel has no Landlock")
    executor = LocalExecutor(host=host, state_dir=hidden_state, user="nobody")
    script = shell(f"cat {beside} {hidden_state}/token")

    with anyio.fail_after(60):
        async with executor.guarded():
            before = await executor.run("before", script, limits())
            await anyio.Path(beside).write_text("open")
            after = await executor.run("after", script, limits())

    assert before.stdout == b""
    assert after.stdout == b"open"
