"""How each upstream is, for whoever is shown a list that some of them are missing from."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from governor.ids import UpstreamName
from tool_gateway.breakers import Breakers
from tool_gateway.catalog import SEPARATOR
from tool_gateway.relays import Health, HealthState, Relay
from tool_gateway.results import Json

OUTCOME_META = "flyball/upstreams"
WHY_CHARS_MAX = 200

Edition = tuple[tuple[UpstreamName, Health, int], ...]


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

    def of(self, relay: Relay) -> Health:
        """Return how an upstream is."""
        if relay.health.state is HealthState.OK and self._is_left_alone(relay.name):
            return Health(state=HealthState.FAILING, why="it failed too often lately")
        health = relay.health
        return health if not health.why else replace(health, why=health.why[:WHY_CHARS_MAX])

    def _is_left_alone(self, upstream: UpstreamName) -> bool:
        breaker = None if self._breakers is None else self._breakers.of(upstream)
        return breaker is not None and breaker.refused() is not None

    @property
    def edition(self) -> Edition:
        """Return what reports depend on besides the list itself."""
        return tuple(
            (name, self.of(relay), self._kept_out(name)) for name, relay in self._relays.items()
        )

    def missing(self, name: str) -> tuple[Relay, Health] | None:
        """Return the upstream whose tool a name could be and that is not there to say so."""
        for relay in self._relays.values():
            is_its = not relay.is_prefixed or name.startswith(f"{relay.name}{SEPARATOR}")
            if is_its and relay.health.state is not HealthState.OK:
                return relay, self.of(relay)
        return None

    def absent(self) -> str:
        """Return a sentence that names the upstreams that are not there; nothing if all are."""
        names = [
            name for name, relay in self._relays.items() if relay.health.state is not HealthState.OK
        ]
        return f"; not there at the moment: {', '.join(names)}" if names else ""

    def of_tools(
        self, listed: Iterable[UpstreamName], *, may_see: Callable[[Relay], bool]
    ) -> Json | None:
        """Return the report beside a list of tools, whose owners are `listed`."""
        healths = {}
        for name, relay in self._relays.items():
            health, kept_out = self.of(relay), self._kept_out(name)
            if health.state is HealthState.OK and kept_out:
                why = f"{kept_out} of its tools wait for an administrator's approval"
                health = Health(state=HealthState.QUARANTINED, why=why)
            healths[name] = health
        return self._report(healths, listed, may_see=may_see)

    def of_list(
        self,
        listed: Iterable[UpstreamName],
        failed: Mapping[UpstreamName, str],
        *,
        may_see: Callable[[Relay], bool],
    ) -> Json | None:
        """Return the report beside another list; `failed` says why parts are missing."""
        healths = {}
        for name, relay in self._relays.items():
            health = self.of(relay)
            if name in failed and health.state is HealthState.OK:
                health = Health(state=HealthState.FAILED, why=failed[name][:WHY_CHARS_MAX])
            healths[name] = health
        return self._report(healths, listed, may_see=may_see)

    def _report(
        self,
        healths: Mapping[UpstreamName, Health],
        listed: Iterable[UpstreamName],
        *,
        may_see: Callable[[Relay], bool],
    ) -> Json | None:
        """Return one line for each upstream that the caller may know of; None says nothing.

        A sole upstream that is shown as it is has nothing beside its lists while all is well.
        """
        counts = dict.fromkeys(healths, 0)
        for name in listed:
            if name in counts:
                counts[name] += 1
        if self.sole is not None and all(h.state is HealthState.OK for h in healths.values()):
            return None
        report: dict[str, object] = {
            name: {
                "state": health.state.value,
                **({"why": health.why} if health.why else {}),
                "listed": counts[name],
            }
            for name, health in healths.items()
            if counts[name] or may_see(self._relays[name])
        }
        return report or None
