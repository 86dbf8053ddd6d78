"""Taking another configuration over while calls run: validated whole, then swapped at once."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread

from governor.breaker import BreakerTerms
from governor.flow.policy import FlowPolicy
from governor.ids import UpstreamName
from governor.policy import ApprovalTerms, Policy
from governor.turn_policy import TurnPolicy
from memory_store.audit import Actor
from runtime.configuration.care import breakers_of
from runtime.configuration.change import ConfigChange, change_to
from runtime.configuration.content import detectors_of
from runtime.configuration.flow import flow_approval_of, flow_policy_of
from runtime.configuration.model import Config
from runtime.configuration.translate import policy_of, turn_policy_of
from runtime.configuration.upstreams import upstreams_of
from runtime.errors import ConfigError
from runtime.ground import Ground
from tool_gateway.changes import Change, ChangeKind, Changes
from tool_gateway.credentials import Detector
from tool_gateway.guards.answers import AnswerGuard
from tool_gateway.guards.pins import Pins
from tool_gateway.relaying import Relaying
from tool_gateway.upstreams.fleet import Lineup, UpstreamFleet
from tool_gateway.upstreams.spec import UpstreamSpec

logger = logging.getLogger(__name__)

Reread = Callable[[], Config]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What a reload did, as the admin API tells it.

    `version` is that of the policy in force. `needs_restart` names tables that were changed and
    stay as they were; `made_once` those of which a start makes what is new, and nothing else does.
    """

    version: str
    version_before: str
    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]
    made_once: tuple[str, ...]
    upstreams: dict[str, list[str]]

    @property
    def told(self) -> str:
        """Return in words what it did."""
        parts = [f"{word} {', '.join(names)}" for word, names in self.upstreams.items() if names]
        told = f"the configuration was reloaded, version {self.version}"
        if self.applied:
            told += f": {', '.join(self.applied)}"
        if parts:
            told += f"; upstreams: {'; '.join(parts)}"
        if self.needs_restart:
            told += f"; needs a restart: {', '.join(self.needs_restart)}"
        if self.made_once:
            told += (
                f"; of {', '.join(self.made_once)} nothing was made or changed: what is new there "
                "is made at the next start, what is made already is changed by the admin API alone"
            )
        return told


class Reloader:
    """Takes what the file says now over into a running sidecar, one reload after the other."""

    def __init__(
        self,
        reread: Reread | None,
        ground: Ground,
        *,
        fleet: UpstreamFleet,
        pins: Pins,
        answers: AnswerGuard,
        relaying: Relaying,
        changes: Changes,
        follow: Callable[[Config, Policy], None],
    ) -> None:
        """Take the parts; `reread` returns what the file says now, None where there is none.

        `follow` is told what has come into force.
        """
        self._answers = answers
        self._reread = reread
        self._ground = ground
        self._fleet = fleet
        self._pins = pins
        self._relaying = relaying
        self._changes = changes
        self._follow = follow
        self._one_at_a_time = anyio.Lock()

    async def reload(self, *, by: Actor) -> Reloaded:
        """Return what was taken over of the file; if it is refused nothing has changed.

        Calls that run keep the rule, the hold and the upstream that they began with.

        Raises:
            ConfigError: the file cannot be read or contradicts itself, or there is none.
            StoreError: the change cannot be audited.
        """
        if self._reread is None:
            raise ConfigError("this sidecar was started without a file; there is nothing to reload")
        async with self._one_at_a_time:
            wanted = await anyio.to_thread.run_sync(self._reread)
            change = change_to(wanted, running=self._ground.config)
            # All that can be refused is refused here, before anything has changed.
            terms = _Terms.of(change.effective)
            # Shielded: an administrator who goes away leaves no half of a change behind. It is
            # bounded by the store's patience and the time that new upstreams have to come up.
            with anyio.CancelScope(shield=True):
                was = self._ground.policy.version
                await self._audit(change, was=was, now=terms.policy.version, by=by)
                lineup = await self._fleet.lined_up(terms.specs)
                self._swap(terms, lineup)
                await self._pins.pin_met()
        # Tools are told by the fleet where they change; that a rule hides some is seen nowhere.
        for kind in (ChangeKind.TOOLS, ChangeKind.PROMPTS, ChangeKind.RESOURCES):
            self._changes.publish(Change(kind=kind))
        reloaded = _reloaded(change, lineup, was=was, now=terms.policy.version)
        logger.info("the configuration was reloaded by %s: %s", by.name, reloaded)
        return reloaded

    def _swap(self, terms: "_Terms", lineup: Lineup) -> None:
        """Put everything into force together: no call sees half of it."""
        ground, config = self._ground, terms.config
        ground.in_force.adopt(config, terms.policy)
        ground.flow.adopt(terms.flow, terms.flow_approval)
        ground.turns.adopt(terms.turns)
        ground.breakers.adopt(terms.breakers, anew=(*lineup.added, *lineup.replaced))
        self._pins.adopt({UpstreamName(table.name): table.pin for table in config.upstream})
        self._answers.adopt(terms.detectors)
        self._follow(config, terms.policy)
        self._fleet.take(lineup)
        for name in (*lineup.replaced, *lineup.removed):
            self._relaying.forget(name)

    async def _audit(self, change: ConfigChange, *, was: str, now: str, by: Actor) -> None:
        if self._ground.seat.worker is not None:
            return  # the keeper takes the same over, and notes it once
        await self._ground.store.audit.note(
            by=by,
            now_ms=self._ground.clock.now_ms(),
            action="config.reload",
            target="config",
            before={"version": was},
            after={"version": now, "applied": list(change.applied)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """What follows from a configuration, as far as a reload takes it over."""

    config: Config
    policy: Policy
    specs: tuple[UpstreamSpec, ...]
    breakers: Mapping[str, BreakerTerms]
    detectors: Mapping[str, Detector]
    flow: FlowPolicy | None
    flow_approval: ApprovalTerms
    turns: TurnPolicy

    @classmethod
    def of(cls, config: Config) -> "_Terms":
        """Return the terms of a configuration.

        Raises:
            ConfigError: it contradicts itself.
        """
        return cls(
            config=config,
            policy=policy_of(config),
            specs=upstreams_of(config),
            breakers=breakers_of(config.upstream),
            detectors=detectors_of(config.redaction),
            flow=flow_policy_of(config.flow),
            flow_approval=flow_approval_of(config.flow),
            turns=turn_policy_of(config),
        )


def _reloaded(change: ConfigChange, lineup: Lineup, *, was: str, now: str) -> Reloaded:
    return Reloaded(
        version=now,
        version_before=was,
        applied=change.applied,
        needs_restart=change.needs_restart,
        made_once=change.made_once,
        upstreams={
            "added": _names(lineup.added),
            "removed": _names(lineup.removed),
            "replaced": _names(lineup.replaced),
            "retuned": _names(tuple(lineup.retuned)),
        },
    )


def _names(names: Sequence[UpstreamName]) -> list[str]:
    return [str(name) for name in names]
