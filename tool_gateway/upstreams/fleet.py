"""All upstreams together: started, merged into one catalogue, found by name."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import anyio

from governor.ids import UpstreamName
from tool_gateway.catalog import ToolEntry
from tool_gateway.changes import Changes
from tool_gateway.exchange import NOBODY
from tool_gateway.guards.pins import Pins
from tool_gateway.ports import Backend, ServerPlacement
from tool_gateway.stock import Stock
from tool_gateway.upstreams.connection import UpstreamConnection
from tool_gateway.upstreams.fetching import Fetcher
from tool_gateway.upstreams.oauth.credentials import Credentials, credentials_for
from tool_gateway.upstreams.relay import UpstreamRelay
from tool_gateway.upstreams.spec import HttpSpec, UpstreamSpec

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
    ) -> None:
        """Take what to connect to; nothing is started. With `pins` they say what is exposed."""
        self._stock = stock
        self._pins = pins
        if pins is not None:
            pins.on_change = self._restock
        publish = (changes or Changes()).publish
        self.connections = tuple(
            UpstreamConnection(
                spec,
                placement=placement,
                on_tools=self._restock,
                publish=publish,
                credentials=_credentials_of(spec),
            )
            for spec in specs
        )
        self.relays: Mapping[UpstreamName, UpstreamRelay] = {
            connection.name: UpstreamRelay(connection, placement=placement, publish=publish)
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
        entries: list[ToolEntry] = []
        for connection in self.connections:
            offered = connection.entries
            if self._pins is not None:
                offered = tuple(self._pins.sift(connection.name, offered))
            entries.extend(offered)
        self._stock.replace(entries)


def _credentials_of(spec: UpstreamSpec) -> Credentials | None:
    """Return the upstream's own credentials, which no other connection is given."""
    if not isinstance(spec, HttpSpec):
        return None
    return credentials_for(spec.auth, url=spec.url, reach=spec.reach, fetcher=Fetcher())
