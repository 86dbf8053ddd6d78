"""Whether the sidecar can serve, and how its upstreams are."""

from collections.abc import Mapping

from governor.ids import UpstreamName
from memory_store.errors import StoreError
from memory_store.store import Store
from tool_gateway.breakers import Breakers
from tool_gateway.upstreams.fleet import UpstreamFleet
from tool_gateway.upstreams.spec import StdioSpec


class Readiness:
    """Answers `/readyz`: the store must work and no shutdown be under way.

    An upstream that is down is reported, not counted: the others can still be called.
    """

    def __init__(self, *, store: Store, fleet: UpstreamFleet, breakers: Breakers) -> None:
        """Take what is asked."""
        self._breakers = breakers
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
        return [
            {
                "name": connection.name,
                "kind": "stdio" if isinstance(connection.spec, StdioSpec) else "http",
                "state": connection.state.value,
                "problem": connection.problem or None,
                "protocol_version": connection.protocol_version,
                "tools": len(connection.entries),
                "breaker": self._breaker_of(connection.name),
            }
            for connection in self._fleet.connections
        ]

    def _breaker_of(self, upstream: UpstreamName) -> Mapping[str, object] | None:
        breaker = self._breakers.of(upstream)
        return None if breaker is None else breaker.shown()
