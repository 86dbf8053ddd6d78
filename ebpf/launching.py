"""Starting the launcher and hearing what became of it."""

import io
import json
import marshal
import os
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import IO

import anyio
from anyio.abc import Process

from ebpf.command import Command
from ebpf.containment import Account
from ebpf.domains.domain import Entry
from ebpf.errors import (
    CommandNotExecutableError,
    CommandNotFoundError,
    LaunchError,
    WorkingDirectoryError,
)
from ebpf.launcher import start
from ebpf.launcher.spec import CarveSpec, LaunchSpec

# Bare: no site directory, no environment, nothing written. The root goes last on the path,
# so that nothing of ours can take the place of a module of the standard library.
_BOOT = "import sys; sys.path.append(sys.argv[1]); from ebpf.launcher.start import main; main()"
_ROOT = str(Path(__file__).resolve().parent.parent)

_NO_CORE = (resource.RLIMIT_CORE, 0, 0)
_OPEN_FILES = (resource.RLIMIT_NOFILE, 1024, 65536)
_STATUS_BYTES_MAX = 64 * 1024


def launcher_argv(spec: str) -> tuple[str, ...]:
    """Return the command line of the launcher for a descriptor's number or a JSON text."""
    return (sys.executable, "-I", "-S", "-B", "-c", _BOOT, _ROOT, spec)


def server_argv(argv: Sequence[str], entry: Entry) -> tuple[str, ...]:
    """Return the command line that starts a server inside a domain, as the sidecar's user.

    It is for this process to start: the server ends with it.
    """
    spec = LaunchSpec(
        argv=list(argv),
        cwd=None,
        env=None,
        marker=entry.marker,
        join=list(entry.join),
        rlimits=[],
        account=None,
        carve=None,
        status_fd=None,
        parent_pid=os.getpid(),
        governed=False,
        keeper=entry.keeper,
    )
    return launcher_argv(json.dumps(spec))


def agent_argv(
    argv: Sequence[str], entry: Entry, *, account: tuple[int, int] | None, carve: CarveSpec | None
) -> tuple[str, ...]:
    """Return the command line that starts an agent inside a domain, at the caller's terminal.

    It is for this process to start: the agent ends with it. It keeps the caller's session and
    process group, so that the terminal is its own.
    """
    spec = LaunchSpec(
        argv=list(argv),
        cwd=None,
        env=None,
        marker=entry.marker,
        join=list(entry.join),
        rlimits=list(entry.rlimits),
        account=account,
        carve=carve,
        status_fd=None,
        parent_pid=os.getpid(),
        governed=False,
        keeper=False,
    )
    return launcher_argv(json.dumps(spec))


@dataclass(slots=True, kw_only=True)
class Launched:
    """A launcher that was started, and the pipe on which it says what became of it."""

    process: Process
    keeper: bool
    _status_fd: int
    _received: bytes = b""
    wait_status: int | None = None
    cpu_us: int | None = None
    io_bytes: int | None = None

    @property
    def exit_code(self) -> int | None:
        """The command's exit code, or the signal that ended it as a negative number."""
        if self.wait_status is not None:
            return os.waitstatus_to_exitcode(self.wait_status)
        return None if self.keeper else self.process.returncode

    async def wait_for_command(self) -> None:
        """Return once the command has ended.

        Raises:
            LaunchError: the command never ran.
        """
        while self.wait_status is None and await self._receive():
            self._interpret()
        if self.wait_status is None:
            await self.process.wait()

    async def wait_until_gone(self) -> None:
        """Return when the launcher has ended, and its keeper with its last figures."""
        while await self._receive():
            self._interpret()
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
        os.close(self._status_fd)
        await self.process.aclose()

    async def _receive(self) -> bool:
        """Take in more of what the launcher says; tell whether there was more."""
        await anyio.wait_readable(self._status_fd)
        part = os.read(self._status_fd, _STATUS_BYTES_MAX)
        self._received += part
        return bool(part)

    def _interpret(self) -> None:
        source = io.BytesIO(self._received)
        with suppress(EOFError):
            while True:
                match marshal.load(source):  # noqa: S302 - our own launcher, before it gives way
                    case ("failed", str(step), int(number), str(text)):
                        raise _failure(step, number, text)
                    case ("ended", int(status)):
                        self.wait_status = status
                    case ("used", int(cpu_us), int(io_bytes)):
                        self.cpu_us, self.io_bytes = cpu_us, io_bytes
                    case other:
                        message = f"the launcher said {other!r}"
                        raise LaunchError(message)


def _failure(step: str, number: int, text: str) -> LaunchError:
    """Return the error for the step that failed."""
    if step == start.STEP_EXEC:
        missing = isinstance(OSError(number, text), FileNotFoundError)
        return CommandNotFoundError(text) if missing else CommandNotExecutableError(text)
    if step == start.STEP_DIRECTORY:
        return WorkingDirectoryError(text)
    return LaunchError(f"{step}: {text}")


async def launch(
    command: Command, *, entry: Entry, account: Account | None, carve: CarveSpec | None
) -> Launched:
    """Start the launcher for one command.

    Raises:
        LaunchError: not even the launcher could be started.
    """
    status_read, status_write = os.pipe()
    os.set_blocking(status_read, False)
    spec = LaunchSpec(
        argv=list(command.argv),
        cwd=command.cwd or "/",
        env=dict(command.env),
        marker=entry.marker,
        join=list(entry.join),
        rlimits=[_NO_CORE, _OPEN_FILES, *entry.rlimits],
        account=None if account is None else (account.uid, account.gid),
        carve=carve,
        status_fd=status_write,
        parent_pid=os.getpid(),
        governed=True,
        keeper=entry.keeper,
    )
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
    return Launched(process=process, keeper=entry.keeper, _status_fd=status_read)


@contextmanager
def _sealed(spec: LaunchSpec) -> Iterator[IO[bytes]]:
    """Yield a file without a name that holds the spec: the environment may carry secrets."""
    with _nameless() as file:
        marshal.dump(dict(spec), file)
        file.flush()
        yield file


def _nameless() -> IO[bytes]:
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("flyball-launch"), "w+b")
    return tempfile.TemporaryFile()
