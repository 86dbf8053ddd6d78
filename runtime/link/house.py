"""What the processes of a sidecar must agree on, and no book holds: kept in one of them.

Which session a caller is in that names none; who may pass a gate, and which challenges were
answered; and what each worker says of itself.
"""

from collections import OrderedDict
from dataclasses import dataclass

from governor.denial import Denied
from governor.gate import GateTerms
from governor.ids import PrincipalId
from tool_gateway.guards.gate import ReasoningGate
from tool_gateway.ports import Clock
from tool_gateway.sessions import PREFIX, TOKENS_MAX

REPORT_EVERY_SECONDS = 2.0
# Whoever has not been heard of for so long does not count.
REPORTED_MS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What a worker says of itself: its process, and its metrics in Prometheus' format.

    `openmetrics` are the same with exemplars, empty where nobody collects spans.
    """

    worker: int
    pid: int
    metrics: str
    openmetrics: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSession:
    """The session of a token; one that `is_pinned` is the only one that the token is good for."""

    name: str
    is_pinned: bool


class House:
    """The memory that the workers share; it begins anew with its process."""

    def __init__(self, *, clock: Clock, idle_ms: int, gate: ReasoningGate | None) -> None:
        """Know nobody; a session that rests for `idle_ms` is not continued."""
        self._clock = clock
        self._idle_ms = idle_ms
        self._gate = gate
        self._open: OrderedDict[str, tuple[str, int]] = OrderedDict()
        self._reports: dict[int, tuple[WorkerReport, int]] = {}
        self._bound: dict[str, str] = {}

    @property
    def reports(self) -> tuple[WorkerReport, ...]:
        """Return what those workers said last that said anything lately, in their order."""
        since_ms = self._clock.now_ms() - REPORTED_MS_MAX
        return tuple(
            report for _, (report, at_ms) in sorted(self._reports.items()) if at_ms >= since_ms
        )

    def bind(self, token_id: str, name: str) -> None:
        """Let a token stand for one session at every worker, until `release`."""
        self._bound[token_id] = name

    def release(self, token_id: str) -> None:
        """Let a token stand for no session of its own any more."""
        self._bound.pop(token_id, None)

    def pin_of(self, token_id: str) -> str | None:
        """Return the name of the only session that a token stands for, None without one."""
        return self._bound.get(token_id)

    async def session_of(
        self, token_id: str, *, known: str | None, touched_at_ms: int
    ) -> TokenSession:
        """Return a token's session, a new one after it has been idle everywhere.

        `known` is the name that the asking worker goes by, and `touched_at_ms` when something
        was done there last: after a restart of this process the name stands.
        """
        if token_id in self._bound:
            return TokenSession(name=self._bound[token_id], is_pinned=True)
        now_ms = self._clock.now_ms()
        name, seen_ms = self._open.get(token_id, (known or "", touched_at_ms))
        seen_ms = max(seen_ms, min(touched_at_ms, now_ms)) if name == known else seen_ms
        if not name or now_ms - seen_ms > self._idle_ms:
            name, seen_ms = self._clock.fresh(PREFIX), now_ms
        self._open[token_id] = (name, seen_ms)
        self._open.move_to_end(token_id)
        if len(self._open) > TOKENS_MAX:
            self._open.popitem(last=False)
        return TokenSession(name=name, is_pinned=False)

    async def gated(self, terms: GateTerms, agent: PrincipalId, *, rule: str) -> Denied | None:
        """Return the challenge for an agent that comes to the gate of a rule, None to let pass."""
        assert self._gate is not None, "the policy of every process has the same gates"
        return self._gate.asked(terms, agent, rule=rule)

    async def taken(self, agent: PrincipalId, *, challenge: str, answer: str) -> str | None:
        """Take an answer; return why it is not taken, None if the agent may pass now."""
        assert self._gate is not None, "the policy of every process has the same gates"
        return self._gate.taken(agent, challenge, answer)

    async def report(self, report: WorkerReport) -> None:
        """Keep what a worker says of itself."""
        self._reports[report.worker] = (report, self._clock.now_ms())
