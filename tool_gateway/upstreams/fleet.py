"""All upstreams together: started, merged into one catalogue, found by name."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import anyio

from governor.amounts import Unit
from governor.call import CallStatus, Isolated, ToolCall
from governor.ids import UpstreamName
from governor.limits import ExecutionLimits
from governor.usage import OF_THE_MACHINE
from tool_gateway.catalog import ToolEntry
from tool_gateway.guards.pins import Pins
from tool_gateway.ports import Backend, Meter, ServerPlacement
from tool_gateway.results import Outcome, text_result
from tool_gateway.stock import Stock
from tool_gateway.upstreams.connection import UpstreamConnection
from tool_gateway.upstreams.reported import reported_usage
from tool_gateway.upstreams.spec import StdioSpec, UpstreamSpec

# What is not up by then is served without, and comes into the list when it is.
CONNECT_SECONDS_MAX = 5.0
_SHARED = "the upstream is one process that all its calls share"
_ELSEWHERE = "the upstream runs outside of this sidecar"


class UpstreamBackend:
    """Runs the calls of one upstream."""

    def __init__(self, connection: UpstreamConnection) -> None:
        """Take the connection that the calls go over."""
        self._connection = connection
        is_local = isinstance(connection.spec, StdioSpec)
        self.unmeasurable: Mapping[Unit, str] = dict.fromkeys(
            OF_THE_MACHINE, _SHARED if is_local else _ELSEWHERE
        )

    @property
    def name(self) -> UpstreamName:
        """Return the upstream's configured name."""
        return self._connection.name

    def isolation_for(self, call: ToolCall, limits: ExecutionLimits) -> Isolated | None:
        """Return None: the upstream runs already, whatever the call."""
        return None

    async def run(self, call: ToolCall, limits: ExecutionLimits, meter: Meter) -> Outcome:
        """Send the call and return the answer, or say that none came in time.

        Raises:
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it failed after the call was sent.
        """
        try:
            result = await self._connection.call(
                call.tool, dict(call.arguments), wall_ms=limits.wall_ms
            )
        except TimeoutError:
            text = f"{self.name} did not answer within {limits.wall_ms} ms and was given up"
            return Outcome(
                result=text_result(text, is_error=True), status=CallStatus.TIMED_OUT, detail=text
            )
        status = CallStatus.TOOL_ERROR if result.is_error else CallStatus.OK
        usage = reported_usage(result, self._connection.spec)
        return Outcome(result=result, status=status, usage=usage)


class UpstreamFleet:
    """Every configured upstream, each kept connected by a task of its own."""

    def __init__(
        self,
        specs: Iterable[UpstreamSpec],
        *,
        placement: ServerPlacement,
        stock: Stock,
        pins: Pins | None = None,
    ) -> None:
        """Take what to connect to; nothing is started. With `pins` they say what is exposed."""
        self._stock = stock
        self._pins = pins
        if pins is not None:
            pins.on_change = self._restock
        self.connections = tuple(
            UpstreamConnection(spec, placement=placement, on_tools=self._restock) for spec in specs
        )
        self.backends: Mapping[UpstreamName, Backend] = {
            connection.name: UpstreamBackend(connection) for connection in self.connections
        }

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Keep every upstream connected while the block runs.

        One that does not come up in time is left to its own retries: a dead upstream never
        takes the others with it.
        """
        async with anyio.create_task_group() as tasks:
            for connection in self.connections:
                tasks.start_soon(connection.run, name=f"upstream {connection.name}")
            with anyio.move_on_after(CONNECT_SECONDS_MAX):
                for connection in self.connections:
                    await connection.settled()
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    def _restock(self) -> None:
        entries: list[ToolEntry] = []
        for connection in self.connections:
            offered = connection.entries
            if self._pins is not None:
                offered = tuple(self._pins.sift(connection.name, offered))
            entries.extend(offered)
        self._stock.replace(entries)
