"""The life of one upstream: connected, watched, reconnected with growing pauses."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum

import anyio
import mcp_types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from governor.ids import ToolName, UpstreamName
from tool_gateway.catalog import ToolEntry
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.ports import ServerPlacement
from tool_gateway.redaction import redact_text
from tool_gateway.results import ToolResult
from tool_gateway.translate import entries_of, result_of
from tool_gateway.upstreams.http import MARK, NOT_REACHED, contained_client
from tool_gateway.upstreams.spec import HttpSpec, StdioSpec, UpstreamSpec
from tool_gateway.upstreams.stderr import StderrRing
from tool_gateway.upstreams.watched import watched

logger = logging.getLogger(__name__)

PAUSE_SECONDS_MIN = 0.5
PAUSE_SECONDS_MAX = 30.0
# A call that meets an upstream in the middle of a restart waits this long for it.
READY_SECONDS_MAX = 5.0
# A connection that lasted this long was no crash loop: it is replaced without a pause.
STEADY_SECONDS = 10.0
TOOL_PAGES_MAX = 100
END_SECONDS_MAX = 30.0
DETAIL_CHARS_MAX = 300
ABOUT_CHARS_MAX = 2_000


class UpstreamState(StrEnum):
    """Where an upstream stands."""

    STARTING = "starting"
    READY = "ready"
    DOWN = "down"


class UpstreamConnection:
    """One upstream; `run` keeps it connected until it is cancelled."""

    def __init__(
        self, spec: UpstreamSpec, *, placement: ServerPlacement, on_tools: Callable[[], None]
    ) -> None:
        """Take what to connect to; `on_tools` is called when the tools may have changed."""
        self.spec = spec
        self.state = UpstreamState.STARTING
        self.problem = ""
        self.entries: tuple[ToolEntry, ...] = ()
        self.protocol_version: str | None = None
        self._placement = placement
        self._on_tools = on_tools
        self._client: Client | None = None
        self._stderr_tail = ""
        self._settled = anyio.Event()  # set once READY or DOWN is known
        self._lost = anyio.Event()
        self._relist = anyio.Event()
        self._told = ""

    @property
    def name(self) -> UpstreamName:
        """Return the upstream's configured name."""
        return self.spec.name

    async def settled(self) -> None:
        """Wait until the first attempt to connect has succeeded or failed."""
        await self._settled.wait()

    async def run(self) -> None:
        """Connect, and connect again whenever the connection is lost."""
        pause = 0.0
        while True:
            self._lost, self._relist = anyio.Event(), anyio.Event()
            began, was_ready = anyio.current_time(), False
            try:
                async with self._connected() as client:
                    was_ready = True
                    await self._keep_listed(client)
                words = "the connection was lost"
            # A task's top: no fault of one upstream may end the others.
            except* Exception as group:  # noqa: BLE001
                words = _first_words(group)
            steady = was_ready and anyio.current_time() - began > STEADY_SECONDS
            pause = 0.0 if steady else min(max(pause * 2, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)
            self._note_loss(words, soon_back=was_ready and pause < READY_SECONDS_MAX)
            await anyio.sleep(pause)

    async def _keep_listed(self, client: Client) -> None:
        """List the tools again whenever they change, until the connection is lost."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._list_on_change, client)
            tasks.start_soon(self._hear_changes, client)
            await self._lost.wait()
            tasks.cancel_scope.cancel()

    async def _hear_changes(self, client: Client) -> None:
        """Subscribe to changes of the tools, where the server's protocol has it so.

        An older server sends them unasked; `_on_message` hears those.
        """
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (
            tools and tools.list_changed
        ):
            return
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._relist.set()
        except (MCPError, SubscriptionLost, TimeoutError) as error:
            logger.info("upstream %s: its changes are no longer heard: %s", self.name, error)

    async def _list_on_change(self, client: Client) -> None:
        while True:
            await self._relist.wait()
            # Announcements come in bursts; what follows within the pause is seen by one list.
            await anyio.sleep(PAUSE_SECONDS_MIN)
            self._relist = anyio.Event()
            try:
                with anyio.fail_after(self.spec.start_ms_max / 1000):
                    self.entries = await self._list_tools(client)
            except (MCPError, TimeoutError, ValidationError) as error:
                logger.warning("upstream %s: its tools cannot be listed: %s", self.name, error)
                continue
            self._on_tools()

    async def call(
        self, tool: ToolName, arguments: dict[str, object], *, wall_ms: int
    ) -> ToolResult:
        """Return the upstream's answer to a call of `tool`, given by its exposed name.

        Raises:
            TimeoutError: no answer came within `wall_ms`.
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it failed after the call was sent.
        """
        client = await self._ready_client()
        original = self._original_of(tool)
        try:
            with anyio.fail_after(wall_ms / 1000):
                answer = await client.session.call_tool(
                    original, arguments, allow_input_required=True
                )
        except MCPError as error:
            raise self._explained(error) from error
        except (ValidationError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            message = f"{self.name} answered what the protocol does not allow: {error}"
            raise UpstreamFailedError(message[:DETAIL_CHARS_MAX]) from error
        except RuntimeError as error:
            # The SDK checks structured content against the declared schema.
            message = f"{self.name} answered against its own output schema: {error}"
            raise UpstreamFailedError(message) from error
        if isinstance(answer, mcp_types.CallToolResult):
            return result_of(answer)
        message = f"{self.name} asks for further input, which this gateway does not relay"
        raise UpstreamFailedError(message)

    async def _ready_client(self) -> Client:
        if self.state is UpstreamState.STARTING:
            with anyio.move_on_after(READY_SECONDS_MAX):
                await self._settled.wait()
        if self._client is None:
            message = f"upstream {self.name} is {self.state} ({self.problem or 'no reason given'})"
            raise UpstreamNotReachedError(message)
        return self._client

    def _original_of(self, tool: ToolName) -> str:
        for entry in self.entries:
            if entry.exposed == tool:
                return entry.original
        message = f"upstream {self.name} no longer offers {tool}"
        raise UpstreamNotReachedError(message)

    def _explained(self, error: MCPError) -> Exception:
        # Whatever an upstream can say itself is never a reason to release its call.
        if error.code == NOT_REACHED and error.data == MARK:
            return UpstreamNotReachedError(f"upstream {self.name}: {error.message}")
        if error.code == mcp_types.CONNECTION_CLOSED and self._lost.is_set():
            return UpstreamFailedError(f"upstream {self.name} died before it answered")
        if error.code == mcp_types.INVALID_REQUEST and error.message == "Session terminated":
            self._lose()
            return UpstreamFailedError(f"upstream {self.name} had ended the session")
        said = redact_text(error.message)[:DETAIL_CHARS_MAX]
        return UpstreamFailedError(f"upstream {self.name}: [{error.code}] {said}")

    def _lose(self) -> None:
        """Send no further call over this connection; the next ones wait for its successor."""
        if self.state is UpstreamState.READY:
            self.state, self._settled, self._client = UpstreamState.STARTING, anyio.Event(), None
        self._lost.set()

    def _note_loss(self, words: str, *, soon_back: bool) -> None:
        self.problem = f"{words}; it wrote: {self._stderr_tail}" if self._stderr_tail else words
        if soon_back:
            self.state = UpstreamState.STARTING
            if self._settled.is_set():  # else calls wait on it already
                self._settled = anyio.Event()
        else:
            self.state = UpstreamState.DOWN
            self._settled.set()
        # One that stays down is tried again and again, and told once.
        if self.problem != self._told:
            self._told = self.problem
            logger.warning("upstream %s is %s: %s", self.name, self.state, self.problem)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        """Yield the open connection, its tools announced; tidy up whatever it started."""
        try:
            with anyio.fail_after(self.spec.start_ms_max / 1000) as starting:
                async with self._client_for(self.spec) as client:
                    self.entries = await self._list_tools(client)
                    starting.deadline = float("inf")
                    self._client = client
                    self.protocol_version = client.protocol_version
                    self.state, self.problem, self._told = UpstreamState.READY, "", ""
                    self._settled.set()
                    self._on_tools()
                    yield client
        finally:
            self._client = None
            if isinstance(self.spec, StdioSpec):
                with anyio.move_on_after(END_SECONDS_MAX, shield=True):
                    await self._placement.end_server(self.name)

    @asynccontextmanager
    async def _client_for(self, spec: UpstreamSpec) -> AsyncIterator[Client]:
        match spec:
            case HttpSpec():
                async with (
                    contained_client(spec.headers) as http,
                    Client(
                        watched(streamable_http_client(spec.url, http_client=http), self._lose),
                        message_handler=self._on_message,
                        cache=None,
                    ) as client,
                ):
                    yield client
            case StdioSpec():
                with StderrRing(spec.name) as stderr:
                    command, *arguments = self._placement.wrap_server(spec.name, spec.command)
                    parameters = StdioServerParameters(
                        command=command, args=arguments, env=dict(spec.env), cwd=spec.cwd
                    )
                    transport = stdio_client(parameters, errlog=stderr.writer)
                    try:
                        async with Client(
                            watched(transport, self._lose),
                            message_handler=self._on_message,
                            cache=None,
                        ) as client:
                            yield client
                    finally:
                        self._stderr_tail = stderr.tail()

    async def _list_tools(self, client: Client) -> tuple[ToolEntry, ...]:
        tools: list[mcp_types.Tool] = []
        cursor = None
        for _ in range(TOOL_PAGES_MAX):
            page = await client.list_tools(cursor=cursor)
            tools.extend(page.tools)
            cursor = page.next_cursor
            if cursor is None:
                break
        about = (client.instructions or "")[:ABOUT_CHARS_MAX]
        return entries_of(self.name, tools, prefixed=self.spec.prefixed, about=about)

    async def _on_message(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._relist.set()


def _first_words(group: BaseExceptionGroup[BaseException]) -> str:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
