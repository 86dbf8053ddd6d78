"""What the launcher of one command says of it, on a pipe that the command never has."""

import io
import marshal
import os
from contextlib import suppress

import anyio

from ebpf.errors import (
    CommandNotExecutableError,
    CommandNotFoundError,
    LaunchError,
    WorkingDirectoryError,
)
from ebpf.launcher import spawner, start

_BYTES_MAX = 64 * 1024


class LaunchReport:
    """What has been said so far."""

    def __init__(self, fd: int) -> None:
        """Take the end of the pipe that is read, to be closed by `close`."""
        os.set_blocking(fd, False)
        self._fd = fd
        self._received = b""
        self._has_ended = False
        self.pid: int | None = None
        self.failure: LaunchError | None = None
        self.wait_status: int | None = None
        self.cpu_us: int | None = None
        self.io_bytes: int | None = None

    async def more(self) -> bool:
        """Wait for more and take it in; tell whether there was more.

        There is none once the command has begun, unless it has a keeper, who speaks until the end.

        Raises:
            LaunchError: nobody of ours said that.
        """
        if self._has_ended:
            return False
        await anyio.wait_readable(self._fd)
        part = os.read(self._fd, _BYTES_MAX)
        self._received += part
        self._has_ended = not part
        self._interpret()
        return bool(part)

    def close(self) -> None:
        """Hear no more."""
        os.close(self._fd)

    def _interpret(self) -> None:
        source = io.BytesIO(self._received)
        with suppress(EOFError):
            while True:
                match marshal.load(source):  # noqa: S302 - our own launcher, before it gives way
                    case (spawner.BEGAN, int(pid)):
                        self.pid = pid
                    case ("failed", str(step), int(number), str(text), str(subject)):
                        self.failure = _failure(step, number, text, subject)
                    case ("ended", int(status)):
                        self.wait_status = status
                    case ("used", int(cpu_us), int(io_bytes)):
                        self.cpu_us, self.io_bytes = cpu_us, io_bytes
                    case other:
                        message = f"the launcher said {other!r}"
                        raise LaunchError(message)


def _failure(step: str, number: int, text: str, subject: str) -> LaunchError:
    """Return the error for the step that failed, which names the program or the directory."""
    missing = isinstance(OSError(number, text), FileNotFoundError)
    if step == start.STEP_EXEC and missing:
        if "/" not in subject:
            return CommandNotFoundError(f"no program `{subject}` on PATH")
        return CommandNotFoundError(f"there is no {subject}, or not what its first line names")
    if step == start.STEP_EXEC:
        return CommandNotExecutableError(f"`{subject}` cannot be run: {text}")
    if step == start.STEP_DIRECTORY and missing:
        return WorkingDirectoryError(f"the directory {subject} does not exist")
    if step == start.STEP_DIRECTORY:
        return WorkingDirectoryError(f"the directory {subject} cannot be entered: {text}")
    return LaunchError(f"{step}: {text}")
