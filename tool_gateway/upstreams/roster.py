"""The upstreams in force, as a mapping that is swapped whole under whoever holds it."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView

from governor.ids import UpstreamName
from tool_gateway.upstreams.relay import UpstreamRelay


class Roster(Mapping[UpstreamName, UpstreamRelay]):
    """The upstreams by name, in the order of the configuration.

    Whoever walks through it walks through the upstreams of one moment, even across a swap.
    """

    def __init__(self, relays: Mapping[UpstreamName, UpstreamRelay]) -> None:
        """Begin with these."""
        self._now = dict(relays)

    def swap(self, relays: Mapping[UpstreamName, UpstreamRelay]) -> None:
        """Have these from now on."""
        self._now = dict(relays)

    def __getitem__(self, name: UpstreamName) -> UpstreamRelay:
        return self._now[name]

    def __iter__(self) -> Iterator[UpstreamName]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)

    def keys(self) -> KeysView[UpstreamName]:
        """Return the names of this moment."""
        return self._now.keys()

    def values(self) -> ValuesView[UpstreamRelay]:
        """Return the upstreams of this moment."""
        return self._now.values()

    def items(self) -> ItemsView[UpstreamName, UpstreamRelay]:
        """Return the upstreams of this moment with their names."""
        return self._now.items()
