"""How each upstream is, for whoever is shown a list that some of them are missing from."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from governor.ids import UpstreamName
from tool_gateway.breakers import Breakers
from tool_gateway.catalog import SEPARATOR
from tool_gateway.relays import Presence, PresenceState, Relay
from tool_gateway.results import Json

OUTCOME_META = "flyball/upstreams"
WHY_CHARS_MAX = 200

Edition = tuple[tuple[UpstreamName, Presence, int], ...]


def _none_of(_: UpstreamName) -> int:
    return 0


class Outcomes:
    """Reports of what each upstream contributes to a list."""

    def __init__(
        self,
        relays: Mapping[UpstreamName, Relay],
        *,
        breakers: Breakers | None = None,
        kept_out: Callable[[UpstreamName], int] = _none_of,
    ) -> None:
        """Take the upstreams; `kept_out` counts an upstream's tools that nobody has approved."""
        self._relays = relays
        self._breakers = breakers
        self._kept_out = kept_out

    @property
    def sole(self) -> Relay | None:
        """Return the one upstream whose names are shown as they are, if that is the setting."""
        relays = tuple(self._relays.values())
        return relays[0] if len(relays) == 1 and not relays[0].is_prefixed else None

    def of(self, relay: Relay) -> Presence:
        """Return how an upstream is."""
        if relay.presence.state is PresenceState.OK and self._is_left_alone(relay.name):
            return Presence(state=PresenceState.FAILING, why="it failed too often lately")
        presence = relay.presence
        return presence if not presence.why else replace(presence, why=presence.why[:WHY_CHARS_MAX])

    def _is_left_alone(self, upstream: UpstreamName) -> bool:
        breaker = None if self._breakers is None else self._breakers.of(upstream)
        return breaker is not None and breaker.refused() is not None

    @property
    def edition(self) -> Edition:
        """Return what reports depend on besides the list itself."""
        return tuple(
            (name, self.of(relay), self._kept_out(name)) for name, relay in self._relays.items()
        )

    def missing(self, name: str) -> tuple[Relay, Presence] | None:
        """Return the upstream whose tool a name could be and that is not there to say so."""
        for relay in self._relays.values():
            is_its = not relay.is_prefixed or name.startswith(f"{relay.name}{SEPARATOR}")
            if is_its and relay.presence.state is not PresenceState.OK:
                return relay, self.of(relay)
        return None

    def absent(self) -> str:
        """Return a sentence that names the upstreams that are not there; nothing if all are."""
        names = [
            name
            for name, relay in self._relays.items()
            if relay.presence.state is not PresenceState.OK
        ]
        return f"; not there at the moment: {', '.join(names)}" if names else ""

    def of_tools(
        self, listed: Iterable[UpstreamName], *, may_see: Callable[[Relay], bool]
    ) -> Json | None:
        """Return the report beside a list of tools, whose owners are `listed`."""
        presences = {}
        for name, relay in self._relays.items():
            presence, kept_out = self.of(relay), self._kept_out(name)
            if presence.state is PresenceState.OK and kept_out:
                why = f"{kept_out} of its tools wait for an administrator's approval"
                presence = Presence(state=PresenceState.QUARANTINED, why=why)
            presences[name] = presence
        return self._report(presences, listed, may_see=may_see)

    def of_list(
        self,
        listed: Iterable[UpstreamName],
        failed: Mapping[UpstreamName, str],
        *,
        may_see: Callable[[Relay], bool],
    ) -> Json | None:
        """Return the report beside another list; `failed` says why parts are missing."""
        presences = {}
        for name, relay in self._relays.items():
            presence = self.of(relay)
            if name in failed and presence.state is PresenceState.OK:
                presence = Presence(state=PresenceState.FAILED, why=failed[name][:WHY_CHARS_MAX])
            presences[name] = presence
        return self._report(presences, listed, may_see=may_see)

    def _report(
        self,
        presences: Mapping[UpstreamName, Presence],
        listed: Iterable[UpstreamName],
        *,
        may_see: Callable[[Relay], bool],
    ) -> Json | None:
        """Return one line for each upstream that the caller may know of; None says nothing.

        A sole upstream that is shown as it is has nothing beside its lists while all is well.
        """
        counts = dict.fromkeys(presences, 0)
        for name in listed:
            if name in counts:
                counts[name] += 1
        if self.sole is not None and all(
            one.state is PresenceState.OK for one in presences.values()
        ):
            return None
        report: dict[str, object] = {
            name: {
                "state": presence.state.value,
                **({"why": presence.why} if presence.why else {}),
                "listed": counts[name],
            }
            for name, presence in presences.items()
            if counts[name] or may_see(self._relays[name])
        }
        return report or None
