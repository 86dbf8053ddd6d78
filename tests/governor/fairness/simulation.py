"""A gate in virtual time: agents that ask, an upstream that takes its time, and one seed."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from governor.fairness.adaptive import Ending
from governor.fairness.claim import Claim, Priority
from governor.fairness.gate import Gate, GateBounds
from governor.fairness.queue import Queued
from governor.fairness.tree import Stage, Waiting

PATIENCE_MS = 600_000


@dataclass(kw_only=True)
class Agent:
    """Keeps `outstanding` calls under way, each after thinking for about `think_ms`."""

    tenant: str
    name: str = "agent"
    outstanding: int
    think_ms: int = 0
    service_ms: int = 100
    weight: int = 1
    priority: Priority = Priority.NORMAL
    sessions: int = 1
    waits_ms: list[int] = field(default_factory=list)
    served_ms: int = 0
    refused: int = 0


class Simulation:
    """Agents in front of one gate; every event happens at its own virtual instant."""

    def __init__(self, terms: GateBounds, agents: list[Agent], *, seed: int) -> None:
        self.gate = Gate(terms)
        self.random = random.Random(seed)
        self.now_ms = 0
        self.started_ms: list[int] = []
        self.idle_while_wanted = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._woken_ms = -1
        self._asking: dict[Waiting, tuple[Agent, int]] = {}
        for agent in agents:
            for session in range(agent.outstanding):
                self._later(self.random.randrange(50), self._asks(agent, session))

    def run(self, until_ms: int) -> None:
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, happens = heapq.heappop(self._events)
            happens()
            self._start_due()

    def _later(self, in_ms: int, happens: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now_ms + in_ms, self._number, happens))

    def _asks(self, agent: Agent, session: int) -> Callable[[], None]:
        def ask() -> None:
            asked_ms = self.now_ms
            if self.gate.pass_at_once(self.now_ms):
                self._starts(agent, session, None, asked_ms)
                return
            offered = self.gate.wait(self._claim(agent, session), self.now_ms)
            if not isinstance(offered, Queued):
                self._refused(agent, session)
                return
            self._asking[offered.waiting] = (agent, asked_ms)
            if offered.displaced is not None:
                loser, _ = self._asking.pop(offered.displaced)
                self._refused(loser, session)

        return ask

    def _claim(self, agent: Agent, session: int) -> Claim:
        return Claim(
            tenant=agent.tenant,
            agent=agent.name,
            session=str(session % agent.sessions),
            tenant_weight=agent.weight,
            priority=agent.priority,
            expires_ms=self.now_ms + PATIENCE_MS,
        )

    def _refused(self, agent: Agent, session: int) -> None:
        agent.refused += 1
        self._later(self.gate.retry_after_ms(self.now_ms), self._asks(agent, session))

    def _start_due(self) -> None:
        for waiting in self.gate.start_due(self.now_ms):
            agent, asked_ms = self._asking.pop(waiting)
            self._starts(agent, int(waiting.claim.session), waiting, asked_ms)
        gate = self.gate
        if gate.waiting and gate.in_flight < gate.limit and gate.due_ms() is None:
            self.idle_while_wanted += 1
        due_ms = gate.due_ms()
        if due_ms is not None and due_ms != self._woken_ms:
            self._woken_ms = due_ms
            self._later(max(0, due_ms - self.now_ms), lambda: None)

    def _starts(self, agent: Agent, session: int, waited: Waiting | None, asked_ms: int) -> None:
        assert waited is None or waited.stage is Stage.STARTED
        assert self.gate.in_flight <= self.gate.limit
        agent.waits_ms.append(self.now_ms - asked_ms)
        self.started_ms.append(self.now_ms)
        took_ms = max(1, round(self.random.lognormvariate(0, 0.5) * agent.service_ms))
        took_ms = min(took_ms, 4 * agent.service_ms)
        began_ms = self.now_ms

        def ends() -> None:
            agent.served_ms += took_ms
            self.gate.observe(
                Ending.ANSWERED, kind=agent.tenant, began_ms=began_ms, ended_ms=self.now_ms
            )
            self.gate.leave(waited, held_ms=took_ms)
            think_ms = round(self.random.expovariate(1 / agent.think_ms)) if agent.think_ms else 0
            self._later(think_ms, self._asks(agent, session))

        self._later(took_ms, ends)


def jain(shares: list[float]) -> float:
    """Return Jain's index of fairness: 1 when all have the same, 1/n when one has all."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
