"""The answering end: runs what it is asked for, as far as that is on its list."""

import asyncio
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from governor.errors import GovernorError
from memory_store.errors import StoreError, StoreUnavailableError
from runtime.errors import ListenError
from runtime.link.client import CANCEL, HELLO
from runtime.link.frames import Frames, framed, is_of_this_user
from runtime.link.operations import Operation, Operations, error_told

logger = logging.getLogger(__name__)

_read_hello = msgspec.msgpack.Decoder(tuple[str, int]).decode
_read_request = msgspec.msgpack.Decoder(tuple[int, int, list[msgspec.Raw]]).decode

BACKLOG = 64
# What the kernel takes for the name of a socket, with the zero behind it.
_PATH_BYTES_MAX = 107


class LinkServer:
    """Answers every process of this user that names the same operations."""

    def __init__(self, operations: Operations, books: Mapping[str, object]) -> None:
        """Take the books that the operations are about."""
        self.operations = operations
        self.methods: list[Callable[..., Awaitable[Any]] | None] = [
            getattr(books.get(one.book), one.method, None) for one in operations.all
        ]
        self._links: set[_Served] = set()
        self._gone = anyio.Event()
        self.tasks: TaskGroup | None = None

    @property
    def workers(self) -> frozenset[int]:
        """Return which workers are connected."""
        return frozenset(link.worker for link in self._links if link.worker is not None)

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Answer at `path` while the block runs.

        Raises:
            ListenError: there can be no socket.
        """
        listener = bound(path)
        loop = asyncio.get_running_loop()
        async with anyio.create_task_group() as tasks:
            self.tasks = tasks
            server = await loop.create_unix_server(
                lambda: _Served(self), sock=listener, backlog=BACKLOG
            )
            try:
                yield
            finally:
                server.close()
                for link in list(self._links):
                    link.close()
                tasks.cancel_scope.cancel()

    async def all_gone(self, *, seconds_max: float) -> None:
        """Return when no process is connected any more, or the time is over."""
        with anyio.move_on_after(seconds_max):
            while self._links:
                await self._gone.wait()

    def joined(self, link: "_Served") -> None:
        """Take note of a connection."""
        self._links.add(link)

    def left(self, link: "_Served") -> None:
        """Take note that a connection ended."""
        self._links.discard(link)
        if not self._links:
            self._gone.set()
            self._gone = anyio.Event()


class _Served(asyncio.Protocol):
    """One connection of a process that asks."""

    def __init__(self, server: LinkServer) -> None:
        self._server = server
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._running: dict[int, anyio.CancelScope] = {}
        self._out: list[bytes] = []
        self.worker: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a Unix socket streams"
        if not is_of_this_user(transport.get_extra_info("socket")):
            logger.error("another user's process wanted to reach the ledger; it was sent away")
            transport.abort()
            return
        self._transport = transport
        self._server.joined(self)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.taken(data):
                self._take(frame)
        except (msgspec.MsgspecError, ValueError, LookupError):
            logger.exception("a worker said what cannot be understood")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._server.left(self)
        # Nobody waits for it any more; what is owed is stored all the same.
        for scope in self._running.values():
            scope.cancel()

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _take(self, frame: bytes) -> None:
        if self.worker is None:
            self._meet(*_read_hello(frame))
            return
        number, which, values = _read_request(frame)
        if which == CANCEL:
            if number in self._running:
                self._running[number].cancel()
            return
        operation = self._server.operations.all[which]
        if self._server.methods[which] is None:
            raise LookupError(f"{operation.book}.{operation.method} is not answered here")
        arguments = operation.read(values)
        assert self._server.tasks is not None, "the server listens"
        scope = self._running[number] = anyio.CancelScope()
        self._server.tasks.start_soon(self._run, number, operation, arguments, scope)

    def _meet(self, edition: str, worker: int) -> None:
        if edition != self._server.operations.edition:
            why = "the ledger process is of another version; restart the sidecar"
            self._send((HELLO, False, error_told(StoreUnavailableError(why))))
            return
        self.worker = worker
        self._send((HELLO, True, None))

    async def _run(
        self,
        number: int,
        operation: Operation,
        arguments: dict[str, Any],
        scope: anyio.CancelScope,
    ) -> None:
        try:
            with scope:
                method = self._server.methods[operation.number]
                assert method is not None, "it was looked for when it was asked for"
                result = await method(**arguments)
                plain = operation.result.plain
                self._send((number, True, result if plain is None else plain(result)))
        except (StoreError, GovernorError) as error:
            self._send((number, False, error_told(error)))
        except Exception as error:
            # One operation's failure is no reason to end the others'.
            logger.exception("%s.%s failed", operation.book, operation.method)
            self._send((number, False, error_told(error)))
        finally:
            del self._running[number]

    def _send(self, message: tuple[Any, ...]) -> None:
        """Send a message together with all others of this turn of the loop."""
        if self._transport is None:
            return
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(framed(message, escaped=True))

    def _flush(self) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self._out))
        self._out.clear()


def bound(path: Path) -> socket.socket:
    """Return a socket at `path` that only this user can reach; one that was left is replaced.

    Raises:
        ListenError: there can be none.
    """
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        raise ListenError(
            f"{path}: a socket's path has at most {_PATH_BYTES_MAX} bytes; choose a state "
            "directory with a shorter name"
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket():
            path.unlink()
        # The directory is this user's alone, so nobody comes in between.
        listener.bind(str(path))
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    except OSError as error:
        listener.close()
        raise ListenError(f"{path}: {error.strerror}") from error
    return listener
