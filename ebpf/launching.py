"""Starting the launcher and hearing what became of it."""

import json
import marshal
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import PIPE
from typing import IO

import anyio
from anyio.abc import Process

from ebpf.child import Child, PipeSink, PipeSource
from ebpf.command import Command
from ebpf.containment import Account
from ebpf.domains.domain import Entry
from ebpf.errors import LaunchError
from ebpf.launch_report import LaunchReport
from ebpf.launcher.spawner import CLAIMED
from ebpf.launcher.spec import CarveSpec, LaunchSpec
from ebpf.spawning import Spawner

# Bare: no site directory, no environment, nothing written. The root goes last on the path,
# so that nothing of ours can take the place of a module of the standard library.
_BOOT = "import sys; sys.path.append(sys.argv[1]); from ebpf.launcher.start import main; main()"
_ROOT = str(Path(__file__).resolve().parent.parent)

# A spawner that says nothing for so long will never: it was stopped, or the host stands still.
SPAWN_SECONDS_MAX = 30.0
_SPAWN_ATTEMPTS = 2


def launcher_argv(spec: str) -> tuple[str, ...]:
    """Return the command line of the launcher for a descriptor's number or a JSON text."""
    return (sys.executable, "-I", "-S", "-B", "-c", _BOOT, _ROOT, spec)


def server_argv(argv: Sequence[str], entry: Entry) -> tuple[str, ...]:
    """Return the command line that starts a server inside a domain, as the sidecar's user.

    It is for this process to start: the server ends with it.
    """
    return _ungoverned_argv(argv, entry, account=None, carve=None)


def agent_argv(
    argv: Sequence[str], entry: Entry, *, account: tuple[int, int] | None, carve: CarveSpec | None
) -> tuple[str, ...]:
    """Return the command line that starts an agent inside a domain, at the caller's terminal.

    It is for this process to start: the agent ends with it. It keeps the caller's session and
    process group, so that the terminal is its own.
    """
    # Above an agent there is its launcher, which keeps the terminal.
    return _ungoverned_argv(argv, replace(entry, keeper=False), account=account, carve=carve)


def _ungoverned_argv(
    argv: Sequence[str], entry: Entry, *, account: tuple[int, int] | None, carve: CarveSpec | None
) -> tuple[str, ...]:
    doors = _doors(entry)
    spec = LaunchSpec(
        argv=list(argv),
        cwd=None,
        env=None,
        marker=entry.marker,
        join=list(doors.join),
        born_in=doors.born_in,
        join_unless_born=list(doors.join_unless_born),
        rlimits=list(entry.rlimits),
        account=account,
        carve=carve,
        filter=None,
        status_fd=None,
        parent_pid=os.getpid(),
        governed=False,
        keeper=entry.keeper,
    )
    return launcher_argv(json.dumps(spec))


@dataclass(slots=True, kw_only=True)
class Launched:
    """A launcher that was started, and what it says has become of it."""

    process: Process
    keeper: bool
    _report: LaunchReport

    @property
    def exit_code(self) -> int | None:
        """The command's exit code, or the signal that ended it as a negative number."""
        if self._report.wait_status is not None:
            return os.waitstatus_to_exitcode(self._report.wait_status)
        return None if self.keeper else self.process.returncode

    @property
    def cpu_us(self) -> int | None:
        """What its whole tree used of processors, where a keeper added it up."""
        return self._report.cpu_us

    @property
    def io_bytes(self) -> int | None:
        """What its whole tree had read from storage and written, where a keeper added it up."""
        return self._report.io_bytes

    async def wait_for_command(self) -> None:
        """Return once the command has ended.

        Raises:
            LaunchError: the command never ran.
        """
        report = self._report
        while report.failure is None and report.wait_status is None:
            if not await report.more():
                await self.process.wait()
                return
        if report.failure is not None:
            raise report.failure

    async def wait_until_gone(self) -> None:
        """Return when the launcher has ended, and its keeper with its last figures."""
        while await self._report.more():
            pass
        await self.process.wait()

    async def stop(self) -> None:
        """Kill the process that was started, unless it is a keeper.

        It may not have entered its domain yet, and killing the domain would miss it. A
        keeper is needed while its tree is cut down, and ends by itself after that.
        """
        if not self.keeper and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    async def aclose(self) -> None:
        """Give the pipes back; the process must have been killed."""
        self._report.close()
        await self.process.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doors:
    """The files to write to enter a domain's control groups."""

    join: tuple[str, ...]
    join_unless_born: tuple[str, ...]

    @property
    def born_in(self) -> str | None:
        """The v2 group that a clone can be in from the first."""
        if not self.join_unless_born:
            return None
        return self.join_unless_born[0].removesuffix("/cgroup.procs")


def _doors(entry: Entry) -> _Doors:
    join: list[str] = []
    unless_born: list[str] = []
    for procs in entry.join:
        tasks = procs.removesuffix("cgroup.procs") + "tasks"
        if os.path.exists(tasks):  # noqa: PTH110 - each command waits for this
            # A thread that moves itself through it need not wait until no process forks.
            join.append(tasks)
        else:
            unless_born.append(procs)
    return _Doors(join=tuple(join), join_unless_born=tuple(unless_born))


async def launch(
    command: Command,
    *,
    entry: Entry,
    account: Account | None,
    carve: CarveSpec | None,
    system_calls: bytes | None,
    spawner: Spawner | None,
) -> Launched:
    """Start one command: as a clone of the spawner, in an interpreter where there is none.

    It begins with the filter of `system_calls`, if there is one.

    Raises:
        LaunchError: there is not even a process that could become the command.
    """
    doors = _doors(entry)
    spec = LaunchSpec(
        argv=list(command.argv),
        cwd=command.cwd or "/",
        env=dict(command.env),
        marker=entry.marker,
        join=list(doors.join),
        born_in=doors.born_in,
        join_unless_born=list(doors.join_unless_born),
        rlimits=list(entry.rlimits),
        account=None if account is None else (account.uid, account.gid),
        carve=carve,
        filter=system_calls,
        status_fd=None,
        parent_pid=os.getpid(),
        governed=True,
        keeper=entry.keeper,
    )
    try:
        return await (_booted(spec) if spawner is None else _spawned(spec, spawner))
    except OSError as error:  # this process may open nothing more, or have no more memory
        message = "the command cannot be handed over"
        raise LaunchError(message) from error


async def _spawned(spec: LaunchSpec, spawner: Spawner) -> Launched:
    """Have the spawner begin a command, and its successor where it was killed before that.

    Raises:
        LaunchError: neither did.
    """
    with _sealed(spec) as source:
        async with spawner.room:
            # Whoever gives up now must still learn which process there is to be killed.
            with anyio.CancelScope(shield=True):
                for _ in range(_SPAWN_ATTEMPTS):
                    launched = await _cloned(source, spawner, keeper=spec["keeper"])
                    if launched is not None:
                        return launched
    message = "the spawner was ended before it had started the command"
    raise LaunchError(message)


async def _cloned(source: IO[bytes], spawner: Spawner, *, keeper: bool) -> Launched | None:
    """Have one clone made; None when the spawner was gone before there was one.

    Raises:
        LaunchError: it could not be made.
    """
    with ExitStack() as ours:
        with ExitStack() as theirs:
            stdin_read, stdin = _pipe(theirs, ours)
            stdout, stdout_write = _pipe(ours, theirs)
            stderr, stderr_write = _pipe(ours, theirs)
            status, status_write = _pipe(ours, theirs)
            files = (status_write, source.fileno(), stdin_read, stdout_write, stderr_write)
            spawner_pid = await spawner.order(files, spec_bytes=os.fstat(source.fileno()).st_size)
        report = LaunchReport(status)
        if not await _has_begun(report):
            if report.failure is not None:
                raise report.failure
            spawner.lost(spawner_pid)
            if os.lseek(source.fileno(), 0, os.SEEK_CUR) == CLAIMED:
                message = "the spawner was ended just when the command began"
                raise LaunchError(message)
            return None
        assert report.pid is not None
        process = Child(
            report.pid,
            stdin=PipeSink(stdin),
            stdout=PipeSource(stdout),
            stderr=PipeSource(stderr),
        )
        ours.pop_all()
    return Launched(process=process, keeper=keeper, _report=report)


async def _has_begun(report: LaunchReport) -> bool:
    """Wait until there is a clone, or it is known that there will be none."""
    with anyio.move_on_after(SPAWN_SECONDS_MAX):
        while report.pid is None and await report.more():
            pass
    return report.pid is not None


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """Return a pipe, each end of which is closed by a stack of its own."""
    ends = os.pipe()
    for stack, end in zip((reading, writing), ends, strict=True):
        stack.callback(os.close, end)
    return ends


async def _booted(spec: LaunchSpec) -> Launched:
    """Start an interpreter that becomes the command.

    Raises:
        LaunchError: it cannot be started.
    """
    status_read, status_write = os.pipe()
    spec["status_fd"] = status_write
    try:
        with _sealed(spec) as source:
            process = await anyio.open_process(
                launcher_argv(str(source.fileno())),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd="/",
                env={},
                pass_fds=(source.fileno(), status_write),
            )
    except BaseException as error:
        os.close(status_read)
        if isinstance(error, OSError):
            message = "the launcher cannot be started"
            raise LaunchError(message) from error
        raise
    finally:
        os.close(status_write)
    report = LaunchReport(status_read)
    return Launched(process=process, keeper=spec["keeper"], _report=report)


@contextmanager
def _sealed(spec: LaunchSpec) -> Iterator[IO[bytes]]:
    """Yield a file without a name that holds the spec: the environment may carry secrets."""
    with _nameless() as file:
        marshal.dump(dict(spec), file)
        file.seek(0)
        yield file


def _nameless() -> IO[bytes]:
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("flyball-launch"), "w+b")
    return tempfile.TemporaryFile()
