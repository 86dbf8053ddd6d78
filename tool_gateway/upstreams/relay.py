"""One upstream as the middle uses it: its calls, its requests, its sessions."""

from collections.abc import Callable, Mapping

import anyio
from anyio.abc import TaskGroup
from mcp.shared.exceptions import MCPError

from governor.amounts import Amounts, Unit
from governor.call import CallStatus, Isolated, ToolCall
from governor.ids import UpstreamName
from governor.limits import ExecutionLimits
from governor.usage import OF_THE_MACHINE, Usage
from tool_gateway.changes import Change
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.exchange import Exchange, Patience
from tool_gateway.ports import Backend, Meter, ServerPlacement
from tool_gateway.relays import ServerFace
from tool_gateway.results import Json, Outcome, text_result
from tool_gateway.translate import result_of
from tool_gateway.upstreams.connection import UpstreamConnection
from tool_gateway.upstreams.leg import said
from tool_gateway.upstreams.oauth.terms import is_per_caller
from tool_gateway.upstreams.opening import Era
from tool_gateway.upstreams.reported import reported_usage
from tool_gateway.upstreams.sessions import SessionConnections
from tool_gateway.upstreams.spec import HttpSpec, Share, StdioSpec
from tool_gateway.upstreams.twin import Twin

_SHARED = "the upstream is one process that all its calls share"
_ELSEWHERE = "the upstream runs outside of this sidecar"


class UpstreamRelay:
    """One upstream; with `share = "session"` each session has a connection of its own."""

    def __init__(
        self,
        connection: UpstreamConnection,
        *,
        placement: ServerPlacement,
        publish: Callable[[Change], None],
    ) -> None:
        """Take the connection that all share, which also tells what the upstream offers."""
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

        self._twin = Twin(twin)
        self._own: SessionConnections | None = None
        spec = connection.spec
        self._is_per_caller = isinstance(spec, HttpSpec) and is_per_caller(spec.auth)
        if spec.share is Share.SESSION or self._is_per_caller:
            self._own = SessionConnections(
                spec, placement=placement, publish=publish, credentials=connection.credentials
            )

    @property
    def name(self) -> UpstreamName:
        """Return the upstream's configured name."""
        return self._shared.name

    @property
    def is_prefixed(self) -> bool:
        """Tell whether clients see its names with its own name before them."""
        return self._shared.spec.prefixed

    @property
    def face(self) -> ServerFace | None:
        """Return what it said about itself, None before it was first connected."""
        return self._shared.face

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
        is_remote = isinstance(self._shared.spec, HttpSpec)
        return is_remote and face is not None and not face.has_sessions

    async def request(self, method: str, params: Json, exchange: Exchange, *, wall_ms: int) -> Json:
        """Return the upstream's answer, after whatever it had to ask of the client.

        Raises:
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it failed, did not answer in time, or answered with an error.
        """
        connection = await self.connection_for(exchange)
        try:
            return await connection.request(method, params, exchange, wall_ms=wall_ms)
        except TimeoutError as error:
            message = f"{self.name} did not answer within {wall_ms} ms and was given up"
            raise UpstreamFailedError(message) from error

    async def watch(self, uri: str) -> None:
        """Have the upstream tell of changes to a resource.

        Raises:
            UpstreamFailedError: it refuses.
        """
        try:
            await self._shared.listener.watch(self._shared.client, uri)
        except MCPError as error:
            raise said(self.name, error) from error

    async def unwatch(self, uri: str) -> None:
        """Let the upstream tell no more of a resource."""
        try:
            await self._shared.listener.unwatch(self._shared.client, uri)
        except MCPError as error:
            raise said(self.name, error) from error


class UpstreamBackend:
    """Runs the calls of one upstream for one client."""

    def __init__(self, relay: UpstreamRelay, exchange: Exchange) -> None:
        """Take the upstream and how the client of its calls is reached."""
        self._relay = relay
        self._exchange = exchange
        is_local = isinstance(relay._shared.spec, StdioSpec)  # noqa: SLF001 - the same module
        self.unmeasurable: Mapping[Unit, str] = dict.fromkeys(
            OF_THE_MACHINE, _SHARED if is_local else _ELSEWHERE
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
        connection = await self._relay.connection_for(self._exchange)
        patience, began = Patience(limits.wall_ms), anyio.current_time()
        try:
            answer = await connection.call(call.tool, call.arguments, self._exchange, patience)
        except TimeoutError:
            text = f"{self.name} did not answer within {limits.wall_ms} ms and was given up"
            return Outcome(
                result=text_result(text, is_error=True), status=CallStatus.TIMED_OUT, detail=text
            )
        finally:
            meter.usage = _worked(began, patience)
        result = result_of(answer)
        status = CallStatus.TOOL_ERROR if result.is_error else CallStatus.OK
        return Outcome(
            result=result,
            status=status,
            usage=_together(reported_usage(result, connection.spec), meter.usage),
        )


def _worked(began: float, patience: Patience) -> Usage | None:
    """Return the time that the upstream took, where its client was asked in between."""
    if not patience.asked_s:
        return None
    wall_ms = round((anyio.current_time() - began - patience.asked_s) * 1000)
    return Usage(measured=Amounts({Unit.WALL_MS: max(0, wall_ms)}))


def _nothing() -> None:
    """Do nothing: the connection that all share tells what the upstream offers."""


def _unheard(_: Change) -> None:
    """Hear nothing: the connection that all share hears what changes."""


def _together(reported: Usage, worked: Usage | None) -> Usage:
    if worked is None:
        return reported
    return Usage(measured=Amounts({**dict(worked.measured), **dict(reported.measured)}))
