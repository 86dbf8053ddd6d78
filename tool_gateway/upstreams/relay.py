"""One upstream as the middle uses it: its calls, its requests, its sessions."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import chain

import anyio
from anyio.abc import TaskGroup
from mcp.shared.exceptions import MCPError

from governor.amounts import NOTHING, Amounts, Unit
from governor.call import CallStatus, Isolated, ToolCall
from governor.ids import SessionId, ToolName, UpstreamName
from governor.limits import ExecutionLimits
from governor.policy import COMPLETE, GET_PROMPT, READ_RESOURCE, TASK_METHODS
from governor.usage import OF_PROBES, OF_THE_MACHINE, Usage
from tool_gateway.changes import Change
from tool_gateway.errors import (
    UpstreamDownError,
    UpstreamLostError,
    UpstreamNotReachedError,
)
from tool_gateway.exchange import Exchange, Patience
from tool_gateway.ports import Backend, Meter
from tool_gateway.redaction import redact_text
from tool_gateway.relays import Presence, PresenceState, ServerFace
from tool_gateway.results import Json, Outcome, text_result
from tool_gateway.server_ports import ServerPlacement
from tool_gateway.translate import result_of
from tool_gateway.upstreams.attempts import Attempts, Below, half_of
from tool_gateway.upstreams.connection import UpstreamConnection
from tool_gateway.upstreams.leg import said
from tool_gateway.upstreams.oauth.terms import is_per_caller
from tool_gateway.upstreams.opening import Era
from tool_gateway.upstreams.portions import Portion
from tool_gateway.upstreams.reported import reported_usage
from tool_gateway.upstreams.sessions import SessionConnections
from tool_gateway.upstreams.spec import HttpSpec, Share, StdioSpec, UpstreamSpec
from tool_gateway.upstreams.standing import UpstreamState
from tool_gateway.upstreams.twin import Twin
from tool_gateway.upstreams.use import Use

# What only reads can be asked again.
_READING = frozenset(
    {
        "completion/complete",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "tasks/get",
    }
)
# What is a call of its session.
_GOVERNED = frozenset({READ_RESOURCE, GET_PROMPT, COMPLETE, *TASK_METHODS})
_WELL = Presence(state=PresenceState.OK)
_UNSEEN = dict.fromkeys((*OF_THE_MACHINE, *OF_PROBES), "the upstream runs outside of this sidecar")


def _is_not(_: str) -> bool:
    return False


class UpstreamRelay:
    """One upstream; with `share = "session"` each session has a connection of its own."""

    def __init__(
        self,
        connection: UpstreamConnection,
        *,
        placement: ServerPlacement,
        publish: Callable[[Change], None],
        below: Below = half_of,
        is_repeatable: Callable[[ToolName], bool] = _is_not,
        is_frozen: Callable[[SessionId], bool] = _is_not,
    ) -> None:
        """Take the connection that all share, which also tells what the upstream offers.

        `below` draws a number from 0 up to its argument. `is_repeatable` tells whether what was
        approved of a tool says that it can be run twice, `is_frozen` whether a session with
        calls under way stands still.
        """
        self._is_frozen = is_frozen
        self._below = below
        self._is_repeatable = is_repeatable
        self._use = Use()
        self.successor: UpstreamRelay | None = None
        self.is_retired = False
        self._shared = connection

        def twin() -> UpstreamConnection:
            return UpstreamConnection(
                connection.spec,
                placement=placement,
                on_tools=_nothing,
                publish=_unheard,
                era=Era.SESSIONS,
                credentials=connection.credentials,
            )

        self.placement = placement
        self._twin = Twin(twin)
        self._own: SessionConnections | None = None
        spec = connection.spec
        self._is_per_caller = isinstance(spec, HttpSpec) and is_per_caller(spec.auth)
        if spec.share is Share.SESSION or self._is_per_caller:
            self._own = SessionConnections(
                spec,
                placement=placement,
                publish=publish,
                placed_as=connection.placed_as,
                credentials=connection.credentials,
            )

    @property
    def name(self) -> UpstreamName:
        """Return the upstream's configured name."""
        return self._shared.name

    @property
    def connection(self) -> UpstreamConnection:
        """Return the connection that all share."""
        return self._shared

    @property
    def spec(self) -> UpstreamSpec:
        """Return what the operator says about it."""
        return self._shared.spec

    @property
    def is_prefixed(self) -> bool:
        """Tell whether clients see its names with its own name before them."""
        return self.spec.prefixed

    @property
    def face(self) -> ServerFace | None:
        """Return what it said about itself, None before it was first connected."""
        return self._shared.face

    @property
    def own_connections(self) -> tuple[UpstreamConnection, ...]:
        """Return the connections that belong to one session each."""
        return () if self._own is None else self._own.connections

    @property
    def presence(self) -> Presence:
        """Return whether it is connected, in words that are fit for clients."""
        match self._shared.state:
            case UpstreamState.READY | UpstreamState.IDLE:
                return _WELL
            case UpstreamState.STARTING:
                return Presence(state=PresenceState.STARTING, why="it is not connected yet")
            case UpstreamState.DOWN:
                why = redact_text(self._shared.problem.partition("; it wrote: ")[0])
                return Presence(state=PresenceState.DOWN, why=why)

    @property
    def current(self) -> "UpstreamRelay":
        """Return what has taken its place by now, itself if nothing has.

        Raises:
            UpstreamDownError: it was taken out of the configuration.
        """
        relay = self
        while relay.successor is not None:
            relay = relay.successor
        if relay.is_retired:
            message = f"upstream {self.name} was taken out of the configuration"
            raise UpstreamDownError(message)
        return relay

    def retune(self, spec: UpstreamSpec) -> None:
        """Go by another word of the operator's that needs no other connection."""
        self._shared.spec = spec
        if self._own is not None:
            self._own.spec = spec

    def retire(self, successor: "UpstreamRelay | None") -> None:
        """Take no further request; those to come go to `successor`, if there is one."""
        self.is_retired, self.successor = True, successor

    async def started(self) -> None:
        """Wait until its first attempt to connect has ended, as long as a start may take."""
        with anyio.move_on_after(self.spec.start_ms_max / 1000):
            await self._shared.settled()

    async def unused(self) -> None:
        """Wait until no request is under way."""
        await self._use.ended()

    def start_in(self, tasks: TaskGroup) -> None:
        """Keep the other connections to the upstream alive in `tasks`."""
        self._twin.start_in(tasks)
        if self._own is not None:
            self._own.start_in(tasks)

    def backend_for(self, exchange: Exchange) -> Backend:
        """Return what runs a call whose client is reached through `exchange`."""
        return UpstreamBackend(self, exchange)

    async def connection_for(self, exchange: Exchange) -> UpstreamConnection:
        """Return the connection that the exchange's requests go over.

        Raises:
            UpstreamNotReachedError: its session cannot have one of its own, or its caller has no
                token where the upstream is sent one.
        """
        has_sessions = not exchange.wishes.retries_itself
        bearer = exchange.wishes.bearer
        if self._is_per_caller and exchange.session is not None and bearer is None:
            message = f"upstream {self.name} acts for its callers: come with an access token"
            raise UpstreamNotReachedError(message)
        if (
            self._own is not None
            and exchange.session is not None
            and (
                self._shared.spec.share is Share.SESSION
                or self._has_session(of_client=has_sessions)
            )
        ):
            era = Era.SESSIONS if has_sessions and self._speaks_both else Era.ANY
            return await self._own.connection_of(exchange.session, era, bearer=bearer)
        if has_sessions and exchange.session is not None and self._speaks_both:
            return await self._twin.connection() or self._shared
        return self._shared

    async def ready_connection(self, exchange: Exchange, patience: Patience) -> UpstreamConnection:
        """Return the connection for an exchange when it is up, which is part of a call's time.

        Raises:
            UpstreamNotReachedError: it cannot have one, or it was not up in time.
        """
        if self._own is None and exchange.wishes.retries_itself and self._shared.is_up:
            return self._shared  # as most are: nothing is waited for
        ready: UpstreamConnection | None = None
        with anyio.CancelScope(deadline=patience.ends_at):
            connection = await self.connection_for(exchange)
            await connection.up()
            ready = connection
        if ready is None:
            raise UpstreamDownError(f"upstream {self.name} was not there in the time of the call")
        return ready

    def hold_back(self, exchange: Exchange) -> None:
        """Let nothing leave for a session that was frozen while its call waited.

        Raises:
            UpstreamNotReachedError: it was.
        """
        if exchange.session is not None and self._is_frozen(exchange.session):
            raise UpstreamNotReachedError("its session was frozen before it was sent")

    def _has_session(self, *, of_client: bool) -> bool:
        """Tell whether a request is part of a session of the server's, which is one caller's.

        Only in the era without sessions does each request stand for itself.
        """
        face = self._shared.face
        return of_client or face is None or face.has_sessions

    @property
    def _speaks_both(self) -> bool:
        """Tell whether the upstream may speak the older era beside the newer one.

        A server that is started is one process in one era: a second one would know nothing
        of what the first was told.
        """
        face = self._shared.face
        is_remote = isinstance(self.spec, HttpSpec)
        return is_remote and face is not None and not face.has_sessions

    async def request(
        self,
        method: str,
        params: Json,
        exchange: Exchange,
        *,
        wall_ms: int,
        meter: Meter | None = None,
    ) -> Json:
        """Return the upstream's answer, after whatever it had to ask of the client.

        What it took of a server that was started here is noted on `meter`.

        Raises:
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it failed, did not answer in time, or answered with an error.
        """
        relay = self.current
        attempts = relay.attempts(wall_ms, is_repeatable=method in _READING)

        async def send(patience: Patience) -> Json:
            connection = await relay.ready_connection(exchange, patience)
            if method in _GOVERNED:
                relay.hold_back(exchange)
            return await connection.request(method, params, exchange, patience, taken=taken)

        taken: list[Portion] = []
        with relay.in_use():
            try:
                return await attempts.run(send)
            except TimeoutError as error:
                raise UpstreamLostError(_late(self.name, attempts)) from error
            finally:
                if meter is not None:
                    meter.usage = _together(NOTHING, taken)

    def in_use(self) -> AbstractContextManager[None]:
        """Keep the upstream while the block runs, though it may be retired meanwhile."""
        return self._use.entered()

    def attempts(self, wall_ms: int, *, is_repeatable: bool) -> Attempts:
        """Return the attempts at a request that may take `wall_ms` altogether."""
        care = self.spec.care
        return Attempts(
            self.name,
            care.retry,
            wall_ms=wall_ms,
            answer_ms_max=care.answer_ms_max,
            is_repeatable=is_repeatable,
            below=self._below,
        )

    def is_repeatable(self, tool: ToolName) -> bool:
        """Tell whether to run a tool twice is to run it once.

        A server's own word for it counts only as far as it was approved.
        """
        return self.spec.care.idempotent_by_key or self._is_repeatable(tool)

    async def watch(self, uri: str) -> None:
        """Have the upstream tell of changes to a resource.

        Raises:
            UpstreamFailedError: it refuses.
        """
        shared = self.current.connection
        shared.standing.wake()
        try:
            await shared.listener.watch(shared.client, uri)
        except MCPError as error:
            raise said(self.name, error) from error

    async def unwatch(self, uri: str) -> None:
        """Let the upstream tell no more of a resource."""
        shared = self.current.connection
        try:
            await shared.listener.unwatch(shared.client, uri)
        except MCPError as error:
            raise said(self.name, error) from error


class UpstreamBackend:
    """Runs the calls of one upstream for one client."""

    def __init__(self, relay: UpstreamRelay, exchange: Exchange) -> None:
        """Take the upstream and how the client of its calls is reached."""
        self._relay = relay
        self._exchange = exchange
        self.unmeasurable: Mapping[Unit, str] = (
            relay.placement.server_unmeasurable if isinstance(relay.spec, StdioSpec) else _UNSEEN
        )

    @property
    def name(self) -> UpstreamName:
        """Return the upstream's configured name."""
        return self._relay.name

    def isolation_for(self, call: ToolCall, limits: ExecutionLimits) -> Isolated | None:
        """Return None: the upstream runs already, whatever the call."""
        return None

    async def run(self, call: ToolCall, limits: ExecutionLimits, meter: Meter) -> Outcome:
        """Send the call and return the answer, or say that none came in time.

        Raises:
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it failed after the call was sent.
        """
        relay, began = self._relay.current, anyio.current_time()
        # A caller's deadline is for the start. It may not cut a run short: that would be told
        # of the upstream as if it were too slow for everybody.
        attempts = relay.attempts(limits.wall_ms, is_repeatable=relay.is_repeatable(call.tool))
        taken: list[Portion] = []
        try:
            with relay.in_use():
                answer = await attempts.run(partial(self._sent, relay, call, taken))
        except TimeoutError:
            text = _late(self.name, attempts)
            return Outcome(
                result=text_result(text, is_error=True),
                status=CallStatus.TIMED_OUT,
                usage=_together(_worked(began, attempts.asked_s), taken),
                detail=_joined(text, attempts.detail, _company(taken)),
            )
        finally:
            meter.usage = _together(_worked(began, attempts.asked_s), taken)
        result = result_of(answer)
        status = CallStatus.TOOL_ERROR if result.is_error else CallStatus.OK
        return Outcome(
            result=result,
            status=status,
            usage=_with_cost(meter.usage, reported_usage(result, relay.spec)),
            detail=_joined(attempts.detail, _company(taken)),
        )

    async def _sent(
        self, relay: UpstreamRelay, call: ToolCall, taken: list[Portion], patience: Patience
    ) -> Json:
        connection = await relay.ready_connection(self._exchange, patience)
        relay.hold_back(self._exchange)
        key = call.call_id if relay.spec.care.idempotent_by_key else None
        return await connection.call(
            call.tool, call.arguments, self._exchange, patience, key=key, taken=taken
        )


def _late(upstream: str, attempts: Attempts) -> str:
    return f"{upstream} did not answer within {attempts.limit_ms} ms and was given up"


def _worked(began: float, asked_s: float) -> Amounts:
    """Return the time that the upstream took, where its client was asked in between."""
    if not asked_s:
        return NOTHING
    wall_ms = round((anyio.current_time() - began - asked_s) * 1000)
    return Amounts({Unit.WALL_MS: max(0, wall_ms)})


def _together(worked: Amounts, taken: Sequence[Portion]) -> Usage:
    """Return a call's time and what all its attempts took of their servers."""
    parts = [portion.usage() for portion in taken]
    measured, lost = worked, dict(chain.from_iterable(part.unmeasured.items() for part in parts))
    for part in parts:
        measured = measured.plus(part.measured)
    return Usage(
        measured=Amounts({unit: amount for unit, amount in measured if unit not in lost}),
        unmeasured=lost,
        divided=tuple(dict.fromkeys(chain.from_iterable(part.divided for part in parts))),
    )


def _with_cost(usage: Usage | None, reported: Usage) -> Usage:
    """Return the usage with the cost that the upstream reports, where that is believed."""
    if usage is None:
        return reported
    return replace(usage, measured=Amounts({**dict(usage.measured), **dict(reported.measured)}))


def _company(taken: Sequence[Portion]) -> str:
    """Return in words that a call was not alone in its server; empty if it was."""
    others = max((portion.others for portion in taken), default=0)
    if not others:
        return ""
    calls = "another call" if others == 1 else f"{others} others"
    return f"it shared its server with up to {calls}, and has its part of what that used by time"


def _joined(*sentences: str) -> str:
    return "; ".join(filter(None, sentences))


def _nothing() -> None:
    """Do nothing: the connection that all share tells what the upstream offers."""


def _unheard(_: Change) -> None:
    """Hear nothing: the connection that all share hears what changes."""
