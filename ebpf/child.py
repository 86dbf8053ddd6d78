"""A process that this one is the parent of, though another one made it, with its pipes."""

import os
import signal
from contextlib import suppress

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

_READ_BYTES_MAX = 64 * 1024


class PipeSource(ByteReceiveStream):
    """The end of a pipe that is read."""

    def __init__(self, fd: int) -> None:
        """Take a descriptor, to be closed by `aclose`."""
        os.set_blocking(fd, False)
        self._fd: int | None = fd

    async def receive(self, max_bytes: int = _READ_BYTES_MAX) -> bytes:
        """Return what has arrived.

        Raises:
            EndOfStream: nobody is left who could write.
            ClosedResourceError: this end was closed.
        """
        while True:
            if self._fd is None:
                raise anyio.ClosedResourceError
            await anyio.wait_readable(self._fd)
            with suppress(BlockingIOError):
                part = os.read(self._fd, max_bytes)
                break
        if not part:
            raise anyio.EndOfStream
        return part

    async def aclose(self) -> None:
        """Close the descriptor."""
        if self._fd is not None:
            anyio.notify_closing(self._fd)
            os.close(self._fd)
            self._fd = None


class PipeSink(ByteSendStream):
    """The end of a pipe that is written."""

    def __init__(self, fd: int) -> None:
        """Take a descriptor, to be closed by `aclose`."""
        os.set_blocking(fd, False)
        self._fd: int | None = fd

    async def send(self, item: bytes) -> None:
        """Write all of it.

        Raises:
            BrokenResourceError: nobody is left who could read.
            ClosedResourceError: this end was closed.
        """
        left = memoryview(item)
        while left:
            if self._fd is None:
                raise anyio.ClosedResourceError
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                await anyio.wait_writable(self._fd)
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close the descriptor."""
        if self._fd is not None:
            anyio.notify_closing(self._fd)
            os.close(self._fd)
            self._fd = None


class Child(Process):
    """One child of this process, by its id; nobody else waits for it."""

    def __init__(
        self, pid: int, *, stdin: PipeSink, stdout: PipeSource, stderr: PipeSource
    ) -> None:
        """Take a child that was not waited for, and this end of its pipes."""
        self._pid = pid
        # Its id cannot be another process's before it was waited for.
        self._ended_fd: int | None = os.pidfd_open(pid)
        self._status: int | None = None
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr

    @property
    def pid(self) -> int:
        """Its id."""
        return self._pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, the signal that ended it as a negative number, None while it runs."""
        return None if self._status is None else os.waitstatus_to_exitcode(self._status)

    @property
    def stdin(self) -> PipeSink:
        """What it reads."""
        return self._stdin

    @property
    def stdout(self) -> PipeSource:
        """What it writes."""
        return self._stdout

    @property
    def stderr(self) -> PipeSource:
        """What it complains."""
        return self._stderr

    def send_signal(self, signal: int) -> None:
        """Send it a signal, unless it was waited for."""
        if self._status is None:
            os.kill(self._pid, signal)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Return its exit code once it has ended."""
        self._reap()
        while self._status is None:
            assert self._ended_fd is not None
            await anyio.wait_readable(self._ended_fd)
            self._reap()
        code = self.returncode
        assert code is not None
        return code

    def _reap(self) -> None:
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None

    async def aclose(self) -> None:
        """Close the pipes, and see that it has ended; the caller says how long that may take."""
        for pipe in (self._stdin, self._stdout, self._stderr):
            await pipe.aclose()
        self.kill()
        try:
            await self.wait()
        finally:
            if self._ended_fd is not None:
                os.close(self._ended_fd)
                self._ended_fd = None
