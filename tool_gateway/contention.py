"""What an operator says about contention: bounds of each gate, weights, priorities, pressure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from governor.call import ToolCall
from governor.fairness.claim import Claim, Priority
from governor.fairness.gate import GateBounds
from governor.fairness.shedding import Thresholds
from governor.policy import Match

# Who calls what is remembered, so that patterns are matched once; then everything is forgotten.
_KNOWN_MAX = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityRule:
    """Which priority the calls that match have, and the highest that they may ask for."""

    match: Match = field(default_factory=Match)
    usual: Priority = Priority.NORMAL
    highest: Priority = Priority.NORMAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """The terms in force; the first pattern or rule that covers something governs it.

    `gates` holds what differs from `gate`, by the name of an upstream or a model provider.
    """

    enabled: bool = True
    wait_ms_max: int = 30_000
    gate: GateBounds = field(default_factory=GateBounds)
    gates: Mapping[str, GateBounds] = field(default_factory=dict)
    tenant_weights: Mapping[str, int] = field(default_factory=dict)
    agent_weights: Mapping[str, int] = field(default_factory=dict)
    priorities: tuple[PriorityRule, ...] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """How one agent's calls of one tool stand beside others."""

    tenant_weight: int
    agent_weight: int
    rule: PriorityRule


class Standings:
    """Answers what weight and priority a call has."""

    def __init__(self, contention: Contention) -> None:
        """Remember nothing yet."""
        self._contention = contention
        self._known: dict[tuple[str, str, str], _Standing] = {}

    def priority_of(self, call: ToolCall) -> Priority:
        """Return what the call asks for, as far as its rule lets it."""
        rule = self._of(call).rule
        asked = call.urgency.priority
        return rule.usual if asked is None else asked.capped(rule.highest)

    def claim_of(self, call: ToolCall, now_ms: int) -> Claim:
        """Return the call's claim on a slot, which it gives up when it has waited long enough."""
        standing, deadline_ms = self._of(call), call.urgency.deadline_ms
        patience_ms = self._contention.wait_ms_max
        if deadline_ms is not None:
            patience_ms = min(patience_ms, deadline_ms)
        return Claim(
            tenant=call.chain.tenant,
            agent=call.chain.agent,
            session=call.chain.session,
            tenant_weight=standing.tenant_weight,
            agent_weight=standing.agent_weight,
            priority=self.priority_of(call),
            expires_ms=now_ms + patience_ms,
        )

    def _of(self, call: ToolCall) -> _Standing:
        key = (call.chain.tenant, call.chain.agent, call.tool)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            known = self._known[key] = self._found(call)
        return known

    def _found(self, call: ToolCall) -> _Standing:
        terms, chain = self._contention, call.chain
        covering = (
            rule
            for rule in terms.priorities
            if rule.match.covers(tool=call.tool, tenant=chain.tenant, agent=chain.agent)
        )
        return _Standing(
            tenant_weight=_weight(terms.tenant_weights, chain.tenant),
            agent_weight=_weight(terms.agent_weights, chain.agent),
            rule=next(covering, PriorityRule()),
        )


def _weight(weights: Mapping[str, int], name: str) -> int:
    return next((weight for pattern, weight in weights.items() if fnmatchcase(name, pattern)), 1)
