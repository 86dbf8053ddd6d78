"""The asking end: operations are sent together and answered in any order.

An answer that does not come is a failure of the store: what was asked may have been done or
not, as when COMMIT fails. A call's id keeps it from being done twice, and a hold that nobody
knows of ends by its time.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec

from memory_store.errors import StoreOverloadedError, StoreUnavailableError, UnstorableError
from memory_store.writer import NOT_OWED_MAX, WAITING_MAX
from runtime.link.frames import Frames, framed, is_of_this_user
from runtime.link.operations import Operation, Operations, error_heard

logger = logging.getLogger(__name__)

ANSWER_SECONDS_MAX = 30.0
CONNECT_SECONDS_MAX = 30.0
RETRY_SECONDS = 0.1
# The numbers of what is no operation: the first answer, and the end of a wait.
HELLO = 0
CANCEL = -1
_read_answer = msgspec.msgpack.Decoder(tuple[int, bool, msgspec.Raw]).decode
_read_error = msgspec.msgpack.Decoder(tuple[str, str, dict[str, Any]]).decode
_DOWN = "the ledger process does not answer"


class Link(asyncio.Protocol):
    """One connection to the process that answers, made again whenever it is lost.

    `is_open` says whether it can be asked now.
    """

    def __init__(self, path: Path, operations: Operations, *, worker: int) -> None:
        """Take where it listens; `worker` says who asks."""
        self._path = path
        self._operations = operations
        self._worker = worker
        self._transport: asyncio.Transport | None = None
        self.is_open = False
        self._lost = anyio.Event()
        self._met = anyio.Event()
        self._frames = Frames()
        self._waiting: dict[int, tuple[asyncio.Future[Any], float]] = {}
        self._last_id = HELLO
        self._out: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Keep the connection while the block runs, which begins when it is there.

        Raises:
            StoreUnavailableError: nobody answered in time, or who did is of another version.
        """
        with anyio.move_on_after(CONNECT_SECONDS_MAX):
            while not await self._connect():  # noqa: ASYNC110 - another process is polled
                await anyio.sleep(RETRY_SECONDS)
        if not self.is_open:
            raise StoreUnavailableError(_DOWN)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep, name="ledger link")
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                if self._transport is not None:
                    self._transport.close()

    async def ask(self, operation: Operation, values: list[Any]) -> Any:
        """Return what the operation answers.

        Raises:
            StoreUnavailableError: it cannot be asked for now, or no answer came.
            StoreOverloadedError: too much waits already; nothing was sent.
            StoreError: what the operation raises.
            GovernorError: as above.
        """
        if not self.is_open:
            raise StoreUnavailableError(_DOWN)
        if len(self._waiting) >= (WAITING_MAX if operation.is_owed else NOT_OWED_MAX):
            raise StoreOverloadedError
        number = self._last_id = self._last_id + 1
        try:
            frame = framed((number, operation.number, values), escaped=operation.is_owed)
        except UnicodeEncodeError as error:
            raise UnstorableError from error
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[number] = (future, self._loop.time())
        self._send(frame)
        try:
            answer = await future
        except asyncio.CancelledError:
            # Whoever asked has gone: what was not begun need not be.
            if self._waiting.pop(number, None) is not None and self.is_open:
                self._send(framed((number, CANCEL, ())))
            raise
        return operation.result.read(answer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce this end."""
        assert isinstance(transport, asyncio.Transport), "a Unix socket streams"
        self._transport = transport
        self._frames = Frames()
        self._lost, self._met = anyio.Event(), anyio.Event()
        transport.write(framed((self._operations.edition, self._worker)))

    def data_received(self, data: bytes) -> None:
        """Hand on the answers that came."""
        try:
            for frame in self._frames.taken(data):
                self._hear(*_read_answer(frame))
        except (msgspec.MsgspecError, ValueError):
            logger.exception("the ledger process said what cannot be understood")
            self._drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits that no answer comes."""
        self._transport = None
        self.is_open = False
        self._out.clear()
        waiting, self._waiting = self._waiting, {}
        for future, _ in waiting.values():
            if not future.done():
                future.set_exception(StoreUnavailableError(f"{_DOWN} any more"))
        self._lost.set()
        self._met.set()

    def _hear(self, number: int, is_done: bool, said: msgspec.Raw) -> None:  # noqa: FBT001
        if number == HELLO:
            if not is_done:
                raise ValueError(_read_error(said)[1])
            self.is_open = True
            self._met.set()
            return
        future, _ = self._waiting.pop(number, (None, 0.0))
        if future is None or future.done():
            return
        if is_done:
            future.set_result(said)
        else:
            future.set_exception(error_heard(*_read_error(said)))

    def _send(self, frame: bytes) -> None:
        """Send a frame together with all others of this turn of the loop."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)

    def _flush(self) -> None:
        if self._transport is not None and self._out:
            self._transport.write(b"".join(self._out))
        self._out.clear()

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _keep(self) -> None:
        """Connect again whenever the connection is lost, and give up one that is silent."""
        while True:
            while self._transport is not None:
                with anyio.move_on_after(1):
                    await self._lost.wait()
                asked_at = next((at for _, at in self._waiting.values()), None)
                if asked_at is not None and self._loop.time() - asked_at > ANSWER_SECONDS_MAX:
                    logger.error("the ledger process has not answered for too long")
                    self._drop()
            if not await self._connect():
                await anyio.sleep(RETRY_SECONDS)

    async def _connect(self) -> bool:
        """Return whether there is somebody, who was then told who asks."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)  # noqa: FBT003 - the library's own signature
            await self._loop.sock_connect(connection, str(self._path))
            if not is_of_this_user(connection):
                raise PermissionError(f"{self._path} is another user's")
            await self._loop.create_connection(lambda: self, sock=connection)
        except OSError:
            connection.close()
            return False
        with anyio.move_on_after(CONNECT_SECONDS_MAX):
            await self._met.wait()
        return self.is_open
