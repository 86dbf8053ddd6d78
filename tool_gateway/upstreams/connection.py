"""The life of one upstream: connected, watched, put to rest, reconnected with growing pauses."""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import anyio
import mcp_types
from mcp import Client
from mcp.client.session import IncomingMessage, MessageHandlerFnT
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from governor.amounts import Unit
from governor.ids import ToolName, UpstreamName
from governor.manifest import Definition
from tool_gateway import spans
from tool_gateway.bearer import Bearer
from tool_gateway.catalog import ToolEntry
from tool_gateway.changes import Change
from tool_gateway.errors import (
    UpstreamDownError,
    UpstreamFailedError,
    UpstreamLostError,
    UpstreamNotReachedError,
)
from tool_gateway.exchange import Exchange, Patience
from tool_gateway.relays import ServerFace
from tool_gateway.results import IDEMPOTENCY_META, Json
from tool_gateway.server_ports import ServerPlacement
from tool_gateway.translate import entries_of, face_of, shaped
from tool_gateway.upstreams.backoff import Backoff
from tool_gateway.upstreams.http import MARK, UNFIT, Wrap, unsent
from tool_gateway.upstreams.leg import Leg, said
from tool_gateway.upstreams.listening import Listener, listed_parts, listed_tools
from tool_gateway.upstreams.oauth.credentials import Credentials
from tool_gateway.upstreams.opening import WE, Era, opened
from tool_gateway.upstreams.portions import Portion, Portions
from tool_gateway.upstreams.presenting import PresentingTransport
from tool_gateway.upstreams.questions import Questions, Serving, cause_of_sending
from tool_gateway.upstreams.spec import HttpSpec, StdioSpec, UpstreamSpec
from tool_gateway.upstreams.standing import Standing, UpstreamState
from tool_gateway.upstreams.tool_calls import ToolCalls
from tool_gateway.upstreams.vitals import EndCause, Vitals
from tool_gateway.upstreams.watches import until_idle, until_unhealthy
from tool_gateway.upstreams.wire import Wire, wire_to

logger = logging.getLogger(__name__)

PAUSE_SECONDS_MIN = 0.5
PAUSE_SECONDS_MAX = 30.0
# A call that meets an upstream in the middle of a restart waits this long for it.
READY_SECONDS_MAX = 5.0
# A connection that lasted this long was no crash loop: it is replaced without a pause.
STEADY_SECONDS = 10.0
ABOUT_CHARS_MAX = 2_000


class UpstreamConnection:
    """One upstream; `run` keeps it connected until it is cancelled."""

    def __init__(
        self,
        spec: UpstreamSpec,
        *,
        placement: ServerPlacement,
        on_tools: Callable[[], None],
        publish: Callable[[Change], None],
        placed_as: str | None = None,
        watching: Iterable[str] = (),
        era: Era = Era.ANY,
        credentials: Credentials | None = None,
    ) -> None:
        """Take what to connect to; `on_tools` is called when the tools may have changed.

        `placed_as` names the domain of a server that is started, its own name if not given.
        The resources of `watching` are watched from the first connection on.
        `credentials` are what one that runs elsewhere is sent.
        """
        self.spec = spec
        self.credentials = credentials
        self.bearer: Bearer | None = None  # whose the connection is, where it is one caller's
        self.standing = Standing(spec.name)
        self.vitals = Vitals(name=spec.name)
        self.entries: tuple[ToolEntry, ...] = ()
        self.parts: Mapping[str, Definition] = {}  # what of its manifest are no tools
        self.face: ServerFace | None = None
        self.protocol_version: str | None = None
        self.listener = Listener(spec.name, publish=publish, watching=watching)
        self._era = era
        self._placement = placement
        self.placed_as = placed_as or spec.name
        self._on_tools = on_tools
        self._publish = publish
        self._leg: Leg | None = None
        self._wire: Wire | None = None
        self._originals: dict[ToolName, str] = {}
        self._lost = anyio.Event()
        self._portions = (
            Portions(partial(placement.server_use, self.placed_as))
            if isinstance(spec, StdioSpec) and Unit.CPU_MS not in placement.server_unmeasurable
            else None
        )

    @property
    def name(self) -> UpstreamName:
        """Return the upstream's configured name."""
        return self.spec.name

    @property
    def state(self) -> UpstreamState:
        """Return where it stands."""
        return self.standing.state

    @property
    def problem(self) -> str:
        """Return what is wrong with it, empty where nothing is."""
        return self.standing.problem

    @property
    def client(self) -> Client | None:
        """Return the open connection, None while there is none."""
        return None if self._leg is None else self._leg.client

    @property
    def is_busy(self) -> bool:
        """Tell whether a request is in flight, or waits until it can be."""
        return self.standing.is_awaited or (self._leg is not None and self._leg.is_busy)

    async def settled(self) -> None:
        """Wait until the first attempt to connect has succeeded or failed."""
        await self.standing.settled()

    async def run(self) -> None:
        """Connect, and connect again whenever the connection is lost."""
        backoff = Backoff(
            first_s=PAUSE_SECONDS_MIN, most_s=PAUSE_SECONDS_MAX, steady_s=STEADY_SECONDS
        )
        while True:
            self._lost, self.listener.tools_changed = anyio.Event(), anyio.Event()
            self.vitals.begin()
            words = "the connection was lost"
            try:
                async with self._connected() as client:
                    await self._keep_listed(client)
            # A task's top: no fault of one upstream may end the others.
            except* Exception as group:  # noqa: BLE001
                words = self._words_of(group)
            lived_s = self.vitals.lived_s
            why = self.vitals.end(otherwise=words)
            if await self.standing.rested():
                backoff.reset()
                continue
            pause = backoff.after(lived_s=lived_s)
            self._note_loss(why, soon_back=lived_s is not None and pause < READY_SECONDS_MAX)
            await anyio.sleep(pause)

    def _words_of(self, group: BaseExceptionGroup[BaseException]) -> str:
        first = _first_of(group)
        if isinstance(first, TimeoutError) and not str(first) and self.vitals.lived_s is None:
            waited = f"it was not ready within {self.spec.start_ms_max / 1000:g} s"
            # `npx` and the like fetch at first what they are to run.
            is_started = isinstance(self.spec, StdioSpec)
            return f"{waited} (it may still be downloading)" if is_started else waited
        return str(first) or type(first).__name__

    async def _keep_listed(self, client: Client) -> None:
        """List the tools again whenever they change, until the connection is lost."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._list_on_change, client)
            tasks.start_soon(self.listener.listen, client)
            tasks.start_soon(self._end_when_hung, client)
            tasks.start_soon(self._end_when_idle)
            if self._portions is not None:
                tasks.start_soon(self._portions.sample)
            await self._lost.wait()
            tasks.cancel_scope.cancel()

    async def _list_on_change(self, client: Client) -> None:
        while True:
            await self.listener.tools_changed.wait()
            self.listener.tools_changed = anyio.Event()
            try:
                with anyio.fail_after(self.spec.start_ms_max / 1000):
                    await self._take_tools(client, self._leg)
            except (MCPError, TimeoutError, ValidationError) as error:
                logger.warning("upstream %s: its tools cannot be listed: %s", self.name, error)
            else:
                self._on_tools()
            # Announcements come in bursts; what follows within the pause is seen by one list.
            await anyio.sleep(PAUSE_SECONDS_MIN)

    async def _end_when_hung(self, client: Client) -> None:
        if self.spec.health is not None:
            await until_unhealthy(client, self.spec.health, self.vitals, lambda: self.is_busy)
            self._lose()

    async def _end_when_idle(self) -> None:
        if self.spec.idle_ms is not None:
            await until_idle(self.spec.idle_ms, self._rests_since)
            self.vitals.blame(EndCause.IDLE, f"nothing used it for {self.spec.idle_ms} ms")
            self.standing.rest()
            self._leg = None
            self._lost.set()

    def _rests_since(self) -> float | None:
        """Return since when nobody needs the connection, None where somebody does."""
        rests_since = None if self._leg is None else self._leg.rests_since
        started_at = self.vitals.started_at
        is_needed = bool(self.listener.watched) or self.standing.is_awaited
        if rests_since is None or started_at is None or is_needed:
            return None
        return max(rests_since, started_at)

    def original_of(self, tool: ToolName) -> str:
        """Return the upstream's own name for an exposed tool.

        Raises:
            UpstreamNotReachedError: it no longer offers the tool.
        """
        original = self._originals.get(tool)
        if original is None:
            message = f"upstream {self.name} no longer offers {tool}"
            raise UpstreamNotReachedError(message)
        return original

    async def call(
        self,
        tool: ToolName,
        arguments: Json,
        exchange: Exchange,
        patience: Patience,
        *,
        key: str | None = None,
        taken: list[Portion],
    ) -> Json:
        """Return the upstream's answer to a call of `tool`, given by its exposed name.

        `key` tells a server that knows of such keys which calls are one and the same. What it
        takes of a server that was started here is `taken`, also where it fails.

        Raises:
            TimeoutError: no answer came in time.
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it failed after the call was sent.
        """
        leg = await self._ready_leg()
        original = self.original_of(tool)
        params = {**exchange.wishes.extras, "name": original, "arguments": dict(arguments)}
        if key is not None:
            params["_meta"] = {IDEMPOTENCY_META: key}
        serving = Serving(exchange=exchange, patience=patience)
        return await self._request(leg, "tools/call", params, serving, taken)

    async def request(
        self,
        method: str,
        params: Json,
        exchange: Exchange,
        patience: Patience,
        *,
        taken: list[Portion],
    ) -> Json:
        """Return the upstream's answer to a request; what it takes of a server is `taken`.

        Raises:
            TimeoutError: no answer came in time.
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it failed after the request was sent.
        """
        leg = await self._ready_leg()
        serving = Serving(exchange=exchange, patience=patience)
        return await self._request(leg, method, params, serving, taken)

    async def _request(
        self, leg: Leg, method: str, params: Json, serving: Serving, taken: list[Portion]
    ) -> Json:
        began, fault = anyio.current_time(), ""
        try:
            if self._portions is None:
                answer = await leg.request(method, params, serving)
            else:
                with self._portions.entered() as portion:
                    taken.append(portion)
                    answer = await leg.request(method, params, serving)
        except TimeoutError:
            fault = "timeout"
            self._note_silence(anyio.current_time() - began - serving.patience.asked_s)
            raise
        except MCPError as error:
            explained = self._explained(error)
            fault = type(explained).__name__
            raise explained from error
        except BaseException as error:
            fault = type(error).__name__
            raise
        finally:
            spans.note_asked(method, upstream=self.name, began_s=began, fault=fault)
        if self.vitals.failed_checks:
            self.vitals.answered()
        return answer

    def _note_silence(self, seconds: float) -> None:
        """Take a call that was left unanswered for a check; a short limit says nothing."""
        health = self.spec.health
        if health is not None and seconds * 1000 >= health.timeout_ms:
            self.vitals.unanswered()

    @property
    def is_up(self) -> bool:
        """Tell whether requests can be sent at once."""
        return self._leg is not None

    async def up(self) -> None:
        """Return when requests can be sent, which starts a server that rests.

        Raises:
            UpstreamDownError: it did not come up.
        """
        await self._ready_leg()

    async def _ready_leg(self) -> Leg:
        if self._leg is not None:
            return self._leg
        self.standing.wake()
        start_s = self.spec.start_ms_max / 1000
        with anyio.move_on_after(start_s if self.standing.is_waking else READY_SECONDS_MAX):
            await self.standing.settled()
        if self._leg is None:
            message = f"upstream {self.name} is {self.state} ({self.problem or 'no reason given'})"
            raise UpstreamDownError(message)
        return self._leg

    def _explained(self, error: MCPError) -> Exception:
        # Whatever an upstream can say itself is never a reason to release its call.
        if (kept_back := unsent(self.name, error)) is not None:
            return kept_back
        if error.data == MARK:
            kind = UpstreamFailedError if error.code == UNFIT else UpstreamLostError
            return kind(f"upstream {self.name}: {error.message}")
        if error.code == mcp_types.CONNECTION_CLOSED and self._lost.is_set():
            why = f": {self.vitals.why}" if self.vitals.why else ""
            return UpstreamLostError(f"upstream {self.name} died before it answered{why}")
        if error.code == mcp_types.INVALID_REQUEST and error.message == "Session terminated":
            self._lose()
            return UpstreamLostError(f"upstream {self.name} had ended the session")
        return said(self.name, error)

    def _lose(self) -> None:
        """Send no further call over this connection; the next ones wait for its successor."""
        if self.state is UpstreamState.READY:
            self.standing.start()
            self._leg = None
        self._lost.set()

    def _note_loss(self, why: str, *, soon_back: bool) -> None:
        wrote = self.vitals.stderr.tail()
        self.standing.down(f"{why}; it wrote: {wrote}" if wrote else why, soon_back=soon_back)
        if not soon_back:
            self._on_tools()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        """Yield the open connection, its tools announced; tidy up whatever it started."""
        questions = Questions()
        try:
            with anyio.fail_after(self.spec.start_ms_max / 1000) as starting:
                async with opened(
                    self.spec,
                    placed_as=self.placed_as,
                    placement=self._placement,
                    questions=questions,
                    on_message=self._on_message(questions),
                    on_lost=self._lose,
                    vitals=self.vitals,
                    era=self._era,
                    wrap=self._wrap,
                ) as client:
                    leg = Leg(self.name, client, questions)
                    self._wire = self._wire_of(client)
                    await self._take_tools(client, leg)
                    starting.deadline = float("inf")
                    self._leg = leg
                    self.face = face_of(client)
                    self.protocol_version = client.protocol_version
                    self.vitals.ready()
                    self.standing.ready(tools=len(self.entries))
                    self._on_tools()
                    yield client
        finally:
            self._leg = None
            if self._wire is not None:
                self._wire.close()
                self._wire = None

    @property
    def _wrap(self) -> Wrap | None:
        """Return what adds the credentials to the requests of the SDK's client."""
        if self.credentials is None or not isinstance(self.spec, HttpSpec):
            return None
        return partial(
            PresentingTransport,
            credentials=self.credentials,
            url=self.spec.url,
            bearer_of=self._sender,
        )

    def _sender(self) -> Bearer | None:
        """Return with whose token the running task sends: its caller's, or the connection's."""
        cause = cause_of_sending()
        return self.bearer if cause is None else cause.exchange.wishes.bearer

    def _wire_of(self, client: Client) -> Wire | None:
        """Return the short way for calls, where the server's era and address have one."""
        if (
            not isinstance(self.spec, HttpSpec)
            or client.protocol_version not in MODERN_PROTOCOL_VERSIONS
        ):
            return None
        return wire_to(
            self.spec,
            meta={
                mcp_types.PROTOCOL_VERSION_META_KEY: client.protocol_version,
                mcp_types.CLIENT_INFO_META_KEY: shaped(WE),
                mcp_types.CLIENT_CAPABILITIES_META_KEY: {},
            },
            credentials=self.credentials,
        )

    async def _take_tools(self, client: Client, leg: Leg | None) -> None:
        self.parts = await listed_parts(client, instructions=client.instructions)
        self.entries = await self._list_tools(client)
        self._originals = {entry.exposed: entry.original for entry in self.entries}
        if leg is not None and self._wire is not None:
            leg.calls = ToolCalls(self._wire, self.entries)

    def _on_message(self, questions: Questions) -> MessageHandlerFnT:
        async def on_message(message: IncomingMessage) -> None:
            if isinstance(message, mcp_types.ElicitCompleteNotification):
                await questions.elicited(message.params)
            else:
                self.listener.hear(message)

        return on_message

    async def _list_tools(self, client: Client) -> tuple[ToolEntry, ...]:
        about = (client.instructions or "")[:ABOUT_CHARS_MAX]
        tools = await listed_tools(client)
        return entries_of(self.name, tools, prefixed=self.spec.prefixed, about=about)


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
