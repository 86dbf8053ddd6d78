"""Having commands begin as clones of a small process: see `ebpf.launcher.spawner`."""

import logging
import os
import socket
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen

import anyio

from ebpf.errors import LaunchError
from ebpf.launcher import linux, spawner

logger = logging.getLogger(__name__)

# Asked of one spawner and not answered yet. What waits beyond that waits in this process, where
# it can be given up.
ORDERS_MAX = 16

_BOOT = "import sys; sys.path.append(sys.argv[1]); from ebpf.launcher.spawner import main; main()"
_ROOT = str(Path(__file__).resolve().parent.parent)


def can_spawn() -> bool:
    """Tell whether this system can have a spawner; else each command needs an interpreter."""
    return sys.platform == "linux" and linux.can_clone_siblings()


@contextmanager
def spawning(spawner: "Spawner | None") -> Iterator[None]:
    """Have a spawner ready in the block, where there can be one, and ended after it.

    Raises:
        LaunchError: it cannot be started.
    """
    if spawner is None:
        yield
        return
    spawner.start()
    try:
        yield
    finally:
        spawner.close()


class Spawner:
    """One spawner, started when it is first needed, and again when it was killed."""

    def __init__(self, *, is_root: bool) -> None:
        """Take whether commands become another user than this process's."""
        self._whose = spawner.ROOT_WORD if is_root else "own"
        self._running: _Running | None = None
        self.room = anyio.Semaphore(ORDERS_MAX)

    @property
    def pid(self) -> int | None:
        """The id of the process, None while there is none."""
        return None if self._running is None else self._running.pid

    def start(self) -> None:
        """Have it run, before it is needed.

        Raises:
            LaunchError: it cannot be started.
        """
        if self._running is None:
            self._running = _Running(self._whose)

    async def order(self, files: Sequence[int], *, spec_bytes: int) -> int:
        """Hand over one launch; return the id of the spawner that has it now.

        `files` are a pipe on which it says what became of it, the spec, and those that the
        command reads and writes.

        Raises:
            LaunchError: it cannot be started, or is gone again.
        """
        for _ in range(2):
            self.start()
            assert self._running is not None
            pid = self._running.pid
            try:
                await self._running.send(_as_int(spec_bytes), files)
            except OSError:
                self.lost(pid)
            else:
                return pid
        message = "the spawner ends as soon as it is started"
        raise LaunchError(message)

    def lost(self, pid: int) -> None:
        """Take note that the spawner of this id does not answer; the next order starts another."""
        if self._running is not None and self._running.pid == pid:
            logger.warning("the spawner was ended and is started again")
            self.close()

    def close(self) -> None:
        """End it; what it had made goes on."""
        if self._running is not None:
            self._running.close()
            self._running = None


class _Running:
    """A spawner that was started."""

    def __init__(self, whose: str) -> None:
        own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own.setblocking(False)  # noqa: FBT003 - its signature
        with theirs:
            try:
                process = _started(theirs.fileno(), whose)
            except OSError as error:
                own.close()
                message = "the spawner cannot be started"
                raise LaunchError(message) from error
        self.pid = process.pid
        self._socket = own
        self._end = weakref.finalize(self, _end, own, process)

    def close(self) -> None:
        """End it, and wake whoever waits to be heard."""
        anyio.notify_closing(self._socket)
        self._end()

    async def send(self, order: bytes, files: Sequence[int]) -> None:
        """Hand over an order with its files, once there is room for it."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, b"".join(map(_as_int, files)))]
        while True:
            try:
                self._socket.sendmsg([order], rights)
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            else:
                return


def _as_int(number: int) -> bytes:
    return number.to_bytes(spawner.INT_BYTES, sys.byteorder)


def _started(orders: int, whose: str) -> Popen[bytes]:
    argv = (sys.executable, "-I", "-S", "-B", "-c", _BOOT, _ROOT, str(os.getpid()), whose)
    return Popen(  # noqa: S603 - this very interpreter
        argv, stdin=orders, stdout=DEVNULL, stderr=DEVNULL, cwd="/", env={}
    )


def _end(orders: socket.socket, process: Popen[bytes]) -> None:
    """End a spawner, which nobody else has waited for."""
    orders.close()
    process.kill()
    process.wait()
