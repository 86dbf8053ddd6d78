"""Whether the sidecar can serve, and how its upstreams are."""

from collections.abc import Callable, Mapping

from governor.ids import UpstreamName
from memory_store.errors import StoreError
from memory_store.store import Store
from tool_gateway.breakers import Breakers
from tool_gateway.server_ports import ServerPlacement
from tool_gateway.upstreams.connection import UpstreamConnection
from tool_gateway.upstreams.fleet import UpstreamFleet
from tool_gateway.upstreams.lives import brief, life_of
from tool_gateway.upstreams.spec import kind_of


class Readiness:
    """Answers `/readyz`: the store must work and no shutdown be under way.

    An upstream that is down is reported, not counted: the others can still be called.
    """

    def __init__(
        self,
        *,
        store: Store,
        fleet: UpstreamFleet,
        breakers: Breakers,
        placement: ServerPlacement,
        now_ms: Callable[[], int],
    ) -> None:
        """Take what is asked."""
        self._breakers = breakers
        self._placement = placement
        self._now_ms = now_ms
        self._store = store
        self._fleet = fleet
        self._draining = False

    def drain(self) -> None:
        """Say from now on that the sidecar is going away."""
        self._draining = True

    async def problems(self) -> list[str]:
        """Return why the sidecar cannot serve; empty when it can."""
        problems = ["the sidecar is shutting down"] if self._draining else []
        try:
            await self._store.check()
        except StoreError as error:
            problems.append(f"the store does not answer: {error}")
        return problems

    def upstreams(self) -> list[dict[str, object]]:
        """Return how each upstream is."""
        return [self._brief(connection) for connection in self._fleet.connections]

    async def upstream(self, name: str) -> Mapping[str, object] | None:
        """Return all that is known of one upstream, None if there is none of that name."""
        for connection in self._fleet.connections:
            if connection.name == name:
                life = await life_of(
                    self._fleet.relays[UpstreamName(name)],
                    connection,
                    placement=self._placement,
                    now_ms=self._now_ms(),
                )
                return {**self._brief(connection), **life}
        return None

    def _brief(self, connection: UpstreamConnection) -> dict[str, object]:
        return {
            "name": connection.name,
            "kind": kind_of(connection.spec),
            "protocol_version": connection.protocol_version,
            "tools": len(connection.entries),
            **brief(connection, now_ms=self._now_ms()),
            "breaker": self._breaker_of(connection.name),
        }

    def _breaker_of(self, upstream: UpstreamName) -> Mapping[str, object] | None:
        breaker = self._breakers.of(upstream)
        return None if breaker is None else breaker.shown()
