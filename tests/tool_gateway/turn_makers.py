"""Turn control for tests: a store of turns in dictionaries, told when to fail."""

from dataclasses import dataclass, field, replace

from governor.ids import SessionId, TaskClass, TenantId
from governor.scope import ScopeChain
from governor.turn_control import FinishedSession
from governor.turn_policy import TurnMode, TurnPolicy
from tool_gateway.books import Books
from tool_gateway.errors import LedgerUnavailableError
from tool_gateway.ports import Clock, TurnsKnown
from tool_gateway.turn_gate import TurnGate


@dataclass
class FakeTurnStore:
    """What is kept of sessions; `past` is the history of every class."""

    past: tuple[FinishedSession, ...] = ()
    is_down: bool = False
    sessions: dict[SessionId, TurnsKnown] = field(default_factory=dict)
    cut: list[SessionId] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    async def known(self, session: SessionId) -> TurnsKnown:
        self._fail_if_down()
        return self.sessions.get(session, TurnsKnown())

    async def history(
        self, *, tenant: TenantId, task_class: TaskClass
    ) -> tuple[FinishedSession, ...]:
        self._fail_if_down()
        return self.past

    async def begin(
        self,
        chain: ScopeChain,
        *,
        task_class: TaskClass,
        mode: TurnMode,
        base: int | None,
        now_ms: int,
    ) -> None:
        self._fail_if_down()
        known = self.sessions.get(chain.session, TurnsKnown())
        self.sessions[chain.session] = replace(known, task_class=task_class, mode=mode, base=base)

    async def extend(self, chain: ScopeChain, *, turns: int, reason: str, now_ms: int) -> None:
        self._fail_if_down()
        self.reasons.append(reason)
        self.give(chain.session, turns)

    async def mark_cut(self, session: SessionId) -> None:
        self._fail_if_down()
        self.cut.append(session)

    def give(self, session: SessionId, turns: int) -> None:
        """Extend a session as somebody else would."""
        known = self.sessions[session]
        self.sessions[session] = replace(
            known, extended=known.extended + turns, extensions=known.extensions + 1
        )

    def _fail_if_down(self) -> None:
        if self.is_down:
            raise LedgerUnavailableError


def a_gate(
    books: Books,
    clock: Clock,
    *,
    policy: TurnPolicy | None = None,
    store: FakeTurnStore | None = None,
) -> TurnGate:
    """Return a gate that limits nobody unless the policy says so."""
    return TurnGate(
        books=books,
        store=FakeTurnStore() if store is None else store,
        policy=TurnPolicy() if policy is None else policy,
        clock=clock,
    )
