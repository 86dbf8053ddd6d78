"""A stdio server as a process: started in its domain, spoken to in lines, ended with its tree."""

import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from tool_gateway.errors import UpstreamFailedError
from tool_gateway.server_ports import ServerPlacement
from tool_gateway.upstreams.lines import LineCutter
from tool_gateway.upstreams.spec import StdioSpec
from tool_gateway.upstreams.vitals import EndCause, Vitals

logger = logging.getLogger(__name__)

# As the protocol says: its input is closed, then it is asked, then it is killed.
CLOSED_SECONDS_MAX = 2.0
ASKED_SECONDS_MAX = 2.0
KILLED_SECONDS_MAX = 5.0
END_SECONDS_MAX = 30.0
# What a server wrote before it exited is read on for so long.
DRAIN_SECONDS_MAX = 0.5
_POLL_SECONDS = 0.01
_WATCH_SECONDS = 0.5

_GONE = (
    anyio.EndOfStream,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
    OSError,
)
_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Outgoing = MemoryObjectReceiveStream[SessionMessage]


@asynccontextmanager
async def server_process(
    spec: StdioSpec, *, placed_as: str, placement: ServerPlacement, vitals: Vitals
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages from and to a server that runs during the block.

    Nothing of it is left afterwards. The stream of its messages ends when it does, when it
    writes a line without an end, or when the process that was started ends, whoever may still
    hold its output.

    Raises:
        OSError: it could not be started.
    """
    process: Process | None = None
    try:
        process = await anyio.open_process(
            placement.wrap_server(placed_as, spec.command, spec.limits),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=spec.cwd,
            env={**get_default_environment(), **spec.env},
            start_new_session=True,
        )
        vitals.started(process.pid)
        placement.server_started(placed_as, process.pid)
        server = _Server(process, spec, vitals, placed_as=placed_as, placement=placement)
        try:
            async with server.speaking() as streams:
                yield streams
        finally:
            with anyio.CancelScope(shield=True):
                await server.ask_to_end()
                await server.note_refusals()
    finally:
        try:
            with anyio.move_on_after(END_SECONDS_MAX, shield=True):
                await placement.end_server(placed_as)
        finally:
            # Also where its domain would not go: what is held here is ours to give back.
            if process is not None:
                with anyio.CancelScope(shield=True):
                    await _bury(process)
                vitals.exited(process.returncode)


class _Server:
    """One process that was started."""

    def __init__(
        self,
        process: Process,
        spec: StdioSpec,
        vitals: Vitals,
        *,
        placed_as: str,
        placement: ServerPlacement,
    ) -> None:
        self._placed_as = placed_as
        self._placement = placement
        self._process = process
        self._spec = spec
        self._vitals = vitals

    @asynccontextmanager
    async def speaking(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield the streams of messages while they are carried to and from the pipes."""
        to_us, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_us = anyio.create_memory_object_stream[SessionMessage](0)
        with to_us, from_server, to_server, from_us:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, to_us)
                tasks.start_soon(self._write, from_us, to_us)
                tasks.start_soon(self._hear)
                tasks.start_soon(self._hang_up_at_exit, to_us)
                if self._spec.limits is not None:
                    tasks.start_soon(self._hang_up_at_limit, to_us)
                try:
                    yield from_server, to_server
                finally:
                    tasks.cancel_scope.cancel()

    async def ask_to_end(self) -> None:
        """Return when the server has ended, or would not though it was asked to."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._discard)
            tasks.start_soon(self._ask)
            # Its last words are often why; who else may hold the pipe is not waited for long.
            with anyio.move_on_after(CLOSED_SECONDS_MAX + ASKED_SECONDS_MAX) as hearing:
                tasks.start_soon(self._shorten_at_exit, hearing)
                await self._hear()
            tasks.cancel_scope.cancel()

    async def _read(self, to_us: _Incoming) -> None:
        """Bring each line as a message; the end of its output is the end of the server."""
        assert self._process.stdout is not None
        cutter = LineCutter(bytes_max=self._spec.line_bytes_max)
        with to_us, suppress(*_GONE):
            try:
                async for part in self._process.stdout:
                    for line in cutter.cut(part):
                        if (message := self._message(line)) is not None:
                            await to_us.send(message)
            except UpstreamFailedError as error:
                self._vitals.blame(EndCause.LINE_TOO_LONG, str(error))
            # Before the messages end, so that whoever waits for one is told why none comes.
            self._note_kill()

    def _message(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        try:
            message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            # Servers print where they should not. If it was an answer, its call runs out of time.
            self._vitals.stderr.note(b"(no message) " + line)
            return None
        return SessionMessage(message)

    async def _write(self, from_us: _Outgoing, to_us: _Incoming) -> None:
        """Bring each message as a line; where none can be written, none will be answered."""
        assert self._process.stdin is not None
        with to_us, suppress(*_GONE):
            async for sent in from_us:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await self._process.stdin.send(text.encode() + b"\n")
                except _GONE:
                    self._note_kill()
                    raise

    async def _hear(self) -> None:
        assert self._process.stderr is not None
        with suppress(*_GONE):
            async for part in self._process.stderr:
                self._vitals.stderr.feed(part)

    async def _discard(self) -> None:
        """Let a server that is stuck writing its output come to its end."""
        assert self._process.stdout is not None
        with suppress(*_GONE):
            async for _ in self._process.stdout:
                pass

    async def _hang_up_at_exit(self, to_us: _Incoming) -> None:
        """End the messages when the process has ended, whoever may still hold its output."""
        await exited(self._process, look_every_s=_WATCH_SECONDS)
        await anyio.sleep(DRAIN_SECONDS_MAX)
        self._note_kill()
        to_us.close()

    async def _hang_up_at_limit(self, to_us: _Incoming) -> None:
        """End the messages when the server is over a limit that nobody else ends it by."""
        self._vitals.blame(EndCause.LIMIT, await self._placement.server_over(self._placed_as))
        to_us.close()

    def _note_kill(self) -> None:
        """Note what the kernel has killed the server for, if it has."""
        words = self._placement.server_killed_by(self._placed_as)
        if words:
            self._vitals.blame(EndCause.MEMORY, words)

    async def note_refusals(self) -> None:
        """Note of a server that gave up which limit kept it from starting processes.

        All that it says itself is in a traceback, which names no limit.
        """
        words = self._placement.server_refused(self._placed_as)
        if not words:
            return
        # It is gone, but how it ended may be known only a moment later.
        await exited(self._process, within_s=ASKED_SECONDS_MAX)
        if (self._process.returncode or 0) > 0:
            self._vitals.blame(EndCause.LIMIT, words)

    async def _shorten_at_exit(self, hearing: anyio.CancelScope) -> None:
        await exited(self._process)
        hearing.deadline = min(hearing.deadline, anyio.current_time() + DRAIN_SECONDS_MAX)

    async def _ask(self) -> None:
        assert self._process.stdin is not None
        with suppress(*_GONE):
            await self._process.stdin.aclose()
        if not await exited(self._process, within_s=CLOSED_SECONDS_MAX):
            _signal(self._process, signal.SIGTERM)


async def exited(
    process: Process, *, within_s: float = float("inf"), look_every_s: float = _POLL_SECONDS
) -> bool:
    """Tell whether a process ends in time.

    It is looked at: waiting for it would also wait for whoever holds its pipes.
    """
    with anyio.move_on_after(within_s):
        while process.returncode is None:  # noqa: ASYNC110 - it has no event without its pipes
            await anyio.sleep(look_every_s)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    """Send a signal to the server and to what it started, as far as that is in its session."""
    if process.returncode is None:
        with suppress(OSError):
            os.killpg(process.pid, number)


async def _bury(process: Process) -> None:
    """Give back what a process held here; its tree has been killed."""
    _signal(process, signal.SIGKILL)
    if not await exited(process, within_s=KILLED_SECONDS_MAX):
        logger.warning("process %d survived SIGKILL for %s s", process.pid, KILLED_SECONDS_MAX)
    # Its pipes would stay open as long as anybody else holds them; nothing public closes them.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        transport.close()
    await anyio.lowlevel.checkpoint()
