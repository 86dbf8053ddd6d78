"""What the suites of `ebpf` share: commands, limits, and a way to hear from a command."""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import anyio
import anyio.to_thread
import psutil
from anyio.abc import Process

from ebpf.executor import Command, CommandResult, LocalExecutor
from governor.confines import FREE, Confines
from governor.limits import ExecutionLimits

MIB = 1024 * 1024
ROOT = Path(__file__).resolve().parents[2]
PATH = "/usr/local/bin:/usr/bin:/bin"
# Commands run as another user, who may not reach the interpreter of this checkout.
PYTHON = next((path for path in ("/usr/bin/python3", sys.executable) if Path(path).exists()), "")


def limits(
    *,
    memory_bytes: int | None = 256 * MIB,
    pids: int | None = 64,
    cpu_millis: int | None = None,
    cpu_ms: int | None = 60_000,
    wall_ms: int = 60_000,
    output_bytes: int = MIB,
    confines: Confines = FREE,
) -> ExecutionLimits:
    return ExecutionLimits(
        memory_bytes=memory_bytes,
        pids=pids,
        cpu_millis=cpu_millis,
        cpu_ms=cpu_ms,
        wall_ms=wall_ms,
        output_bytes=output_bytes,
        confines=confines,
    )


def shell(
    script: str, *, cwd: str | None = None, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> Command:
    return Command(argv=("/bin/sh", "-c", script), cwd=cwd, env=env or {"PATH": PATH}, stdin=stdin)


def python(source: str) -> Command:
    return Command(argv=(PYTHON, "-S", "-c", source), cwd=None, env={}, stdin=b"")


# A busy machine may need seconds for what takes milliseconds elsewhere.
WALLS_MS = (300, 3_000, 30_000)


async def with_time_enough(
    run: Callable[[int], Awaitable[CommandResult]], did: Callable[[CommandResult], object]
) -> CommandResult:
    """Return how a command ended at a time limit that let it do what it is about."""
    for wall_ms in WALLS_MS:
        result = await run(wall_ms)
        if did(result):
            break
    return result


def holder(mib: int, pipe: "Pipe") -> Command:
    """Return a command that holds memory until it is told to go on, and tells when it does."""
    return python(
        f"held = b'x' * {mib * MIB}\n"
        f"open({str(pipe.path)!r}, 'w').write('held')\n"
        f"open({str(pipe.path)!r}).read()\n"
    )


async def until_held(executor: LocalExecutor, name: str, *, mib_s: int) -> None:
    """Return when the samples of a command that runs add up to so much memory over time."""
    # What lies between the last sample and now may yet turn out to be less.
    while executor._running[name]._memory_time._byte_seconds < mib_s * MIB:
        await anyio.sleep(0.02)


# Detached from its session, its parent and every polite signal; writes its pid and stays.
DAEMON = "(setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > {to}; exec sleep 1000' &)"


# What servers do to outlive whoever starts them: children, children that left their session,
# their parent and their environment, wrappers that wait; none of them ends when asked to.
HOSTILE_CHILDREN = """
trap '' TERM HUP INT
sleep {token} &
(setsid sleep {token} &)
(setsid env -i PATH="$PATH" sh -c 'trap "" TERM HUP; (setsid sleep {token} &); sleep {token}' &)
sh -c 'trap "" TERM; sh -c "sleep {token} & wait"' &
(while :; do setsid sleep 0.05; done) &
"""
HOSTILE = HOSTILE_CHILDREN + "echo ready > {to}; exec sleep {token}"
HOSTILE_SLEEPERS = 6


def sleepers(token: str) -> int:
    """Return how many of a hostile tree's processes live."""
    found = 0
    for process in psutil.process_iter(["cmdline", "status"]):
        line = process.info["cmdline"] or []
        found += line == ["sleep", token] and process.info["status"] != psutil.STATUS_ZOMBIE
    return found


async def until_sleeping(token: str, count: int) -> None:
    """Return when exactly so many of a hostile tree's processes live."""
    while await anyio.to_thread.run_sync(sleepers, token) != count:
        await anyio.sleep(0.02)


# A sidecar of its own with one server, to be ended in many ways; SIGUSR1 has it eat memory.
SERVER_OWNER = """
import signal, sys
from pathlib import Path
import anyio
from ebpf.capability import BackendKind, probe_host
from ebpf.executor import LocalExecutor
held = []
signal.signal(signal.SIGUSR1, lambda *_: [held.append(bytearray(1 << 20)) for _ in range(4096)])
async def main():
    kind = BackendKind(sys.argv[3])
    host = probe_host(force_rlimit=kind is BackendKind.RLIMIT, only=kind)
    executor = LocalExecutor(host=host, state_dir=Path(sys.argv[1]), user="nobody")
    async with executor.guarded():
        argv = executor.servers.wrap("files", ("/bin/sh", "-c", sys.argv[2]))
        async with await anyio.open_process(argv, start_new_session=True) as server:
            executor.servers.started("files", server.pid)
            await anyio.sleep_forever()
anyio.run(main)
"""


async def start_server_owner(
    state_dir: Path, script: str, *, backend: str, enter: Path | None = None
) -> Process:
    """Start another sidecar with a server that runs `script`; it may enter a group before."""
    owner = [sys.executable, "-c", SERVER_OWNER, str(state_dir), script, backend]
    if enter is not None:
        owner = ["/bin/sh", "-c", f'echo $$ > {enter}/cgroup.procs; exec "$@"', "sh", *owner]
    return await anyio.open_process(
        owner,
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "PATH": PATH},
        cwd=ROOT,
        stdout=None,
        stderr=None,
    )


# A sidecar of its own, to be killed while it runs a command.
OWNER = """
import sys
from pathlib import Path
import anyio
from ebpf.capability import probe_host
from ebpf.executor import LocalExecutor
from tests.ebpf.commands import limits, shell
host = probe_host(force_rlimit=sys.argv[3] == "rlimit")
executor = LocalExecutor(host=host, state_dir=Path(sys.argv[1]), user="nobody")
anyio.run(executor.run, "left", shell(sys.argv[2] + "; sleep 1000"), limits())
"""


async def start_owner(state_dir: Path, script: str, *, backend: str) -> Process:
    """Start another sidecar of this state directory, which runs `script`."""
    return await anyio.open_process(
        [sys.executable, "-c", OWNER, str(state_dir), script, backend],
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        cwd=ROOT,
    )


class Pipe:
    """A named pipe that commands of any user can open; each end waits for the other."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "pipe"
        os.mkfifo(self.path)
        self.path.chmod(0o666)

    async def receive(self) -> str:
        return await anyio.to_thread.run_sync(self.path.read_text, abandon_on_cancel=True)

    async def send(self, text: str) -> None:
        await anyio.to_thread.run_sync(self.path.write_text, text, abandon_on_cancel=True)


async def wait_until_gone(pid: int) -> None:
    """Return when a process has ended.

    Raises:
        psutil.TimeoutExpired: it did not within a minute.
    """
    try:
        await anyio.to_thread.run_sync(psutil.Process(pid).wait, 60)
    except psutil.NoSuchProcess:
        return


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
