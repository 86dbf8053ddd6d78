"""All upstreams together: started, merged into one catalogue, found by name."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio

from governor.ids import ToolName, UpstreamName
from tool_gateway.catalog import ToolEntry
from tool_gateway.changes import Change, ChangeKind, Changes
from tool_gateway.errors import UnknownToolError
from tool_gateway.exchange import NOBODY
from tool_gateway.guards.pins import Pins
from tool_gateway.ports import Backend, ServerPlacement
from tool_gateway.stock import Stock
from tool_gateway.translate import entries_of
from tool_gateway.upstreams.attempts import Below, half_of
from tool_gateway.upstreams.connection import UpstreamConnection, UpstreamState
from tool_gateway.upstreams.relay import UpstreamRelay
from tool_gateway.upstreams.spec import UpstreamSpec

# What is not up by then is served without, and comes into the list when it is.
CONNECT_SECONDS_MAX = 5.0


class UpstreamFleet:
    """Every configured upstream, each kept connected by a task of its own."""

    def __init__(
        self,
        specs: Iterable[UpstreamSpec],
        *,
        placement: ServerPlacement,
        stock: Stock,
        pins: Pins | None = None,
        changes: Changes | None = None,
        below: Below = half_of,
    ) -> None:
        """Take what to connect to; nothing is started. With `pins` they say what is exposed.

        `below` draws a number from 0 up to its argument, for pauses between attempts.
        """
        self._stock = stock
        self._pins = pins
        if pins is not None:
            pins.on_change = self._restock
        publish = self._publish = (changes or Changes()).publish
        self._entries: tuple[ToolEntry, ...] = ()
        self.connections = tuple(
            UpstreamConnection(spec, placement=placement, on_tools=self._restock, publish=publish)
            for spec in specs
        )
        self.relays: Mapping[UpstreamName, UpstreamRelay] = {
            connection.name: UpstreamRelay(
                connection,
                placement=placement,
                publish=publish,
                below=below,
                is_repeatable=self._is_repeatable,
            )
            for connection in self.connections
        }

    @property
    def backends(self) -> Mapping[UpstreamName, Backend]:
        """Return what runs the calls of nobody in particular."""
        return {name: relay.backend_for(NOBODY) for name, relay in self.relays.items()}

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Keep every upstream connected while the block runs.

        One that does not come up in time is left to its own retries: a dead upstream never
        takes the others with it.
        """
        self._restock()
        async with anyio.create_task_group() as tasks:
            for connection in self.connections:
                tasks.start_soon(connection.run, name=f"upstream {connection.name}")
            for relay in self.relays.values():
                relay.start_in(tasks)
            with anyio.move_on_after(CONNECT_SECONDS_MAX):
                for connection in self.connections:
                    await connection.settled()
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    def _restock(self) -> None:
        """Expose what is offered now, and say so if that is something else than before."""
        entries = tuple(
            entry for connection in self.connections for entry in self._exposed(connection)
        )
        if entries != self._entries:
            self._entries = entries
            self._stock.replace(entries)
            self._publish(Change(kind=ChangeKind.TOOLS))

    def _exposed(self, connection: UpstreamConnection) -> Sequence[ToolEntry]:
        """Return the tools of an upstream that clients may see.

        One that is down is shown as it was when it was last seen, in an earlier life of this
        process too if that was approved: a call then says that it is down.
        """
        spec = connection.spec
        if spec.care.hidden_when_down and connection.state is UpstreamState.DOWN:
            return ()
        if self._pins is None:
            return connection.entries
        if connection.face is None:
            approved = self._pins.approved_of(spec.name)
            return entries_of(spec.name, approved.values(), prefixed=spec.prefixed)
        return self._pins.sift(spec.name, connection.entries)

    def _is_repeatable(self, tool: ToolName) -> bool:
        """Tell whether an exposed tool calls itself read-only or idempotent, and was approved so.

        A server that nobody has looked at is not taken at its word.
        """
        try:
            entry = self._stock.catalog.find(tool)
        except UnknownToolError:
            return False
        is_approved = self._pins is not None and self._pins.holds(entry.backend)
        return is_approved and entry.is_repeatable
