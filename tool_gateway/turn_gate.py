"""Turn control at the gate: every admission of a tool or a model passes here first."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.call import CallRecord, CallStatus
from governor.denial import Denied
from governor.events import KeyReused, Replayed, Reserved
from governor.ids import SessionId, TaskClass, TurnId
from governor.refusal import turn_unknown
from governor.scope import ScopeChain
from governor.target import CallKind
from governor.turn_control import (
    EXTEND_TOOL,
    Extended,
    FinishedSession,
    NotExtended,
    affordable_turns,
    base_turns,
    decide_extension,
    outlook_of,
    reminder,
    turn_limit_denied,
)
from governor.turn_policy import TurnMode, TurnPolicy
from governor.turn_progress import Answer, CallPrint
from tool_gateway import telemetry
from tool_gateway.books import OVERLOAD_RETRY_MS, Books
from tool_gateway.catalog import HOUSE
from tool_gateway.denials import ledger_unavailable, overloaded
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError
from tool_gateway.ports import Clock, TurnStore
from tool_gateway.results import ToolResult
from tool_gateway.turn_session import TurnSession, turns_json

TURNS_META = "flyball/turns"
SESSIONS_MAX = 2_048
# What a session may ask the governor when no turn is left: about its budgets, and for more.
FREE_TOOLS = frozenset({EXTEND_TOOL, "governor_status"})
_DOWN = (LedgerUnavailableError, LedgerOverloadedError)
_AUTOMATIC = "automatic: progress was visible when the last turn was used"


class Heard(Protocol):
    """Who is told what tools bring."""

    def __call__(self, record: CallRecord, brought: Answer, /, *, is_looping: bool) -> None:
        """Hear of a tool call that ended."""


Decision = Reserved | Denied | Replayed | KeyReused


class TurnGate:
    """Counts the turns of every session and stops the one that is beyond its limit.

    What it cannot count it does not let through: where turns are limited, a store that fails
    denies, as it does for budgets.
    """

    def __init__(
        self,
        *,
        books: Books,
        store: TurnStore,
        policy: TurnPolicy,
        clock: Clock,
        is_shared: bool = False,
        heard: Heard | None = None,
    ) -> None:
        """Take the ports; sessions are met one by one.

        `heard` is told what each tool call brought to its session.
        `is_shared` says that other processes serve the same sessions: what they counted is then
        asked for before each turn that begins here.
        """
        self._is_shared = is_shared
        self._heard = heard
        self._books = books
        self._store = store
        self._policy = policy
        self._clock = clock
        self._sessions: OrderedDict[SessionId, TurnSession] = OrderedDict()

    @property
    def policy(self) -> TurnPolicy:
        """Return how sessions' turns are limited now."""
        return self._policy

    def adopt(self, policy: TurnPolicy) -> None:
        """Limit sessions by this from now on; those that were met keep the terms they began on."""
        self._policy = policy

    async def admit(
        self, request: AdmissionRequest, *, task_class: TaskClass | None = None
    ) -> Decision:
        """Return what the books say, or a denial if the session may begin no further turn."""
        try:
            session = await self._session(request.chain, task_class)
        except _DOWN as error:
            return _unavailable(error)
        is_model = request.target.kind is CallKind.MODEL
        if request.turn is None and not request.is_free and session.model_turn is not None:
            request = replace(request, turn=session.model_turn)
        if not session.is_limited or request.is_free:
            decision = await self._books.admit(request)
        elif request.target.upstream == HOUSE and request.target.name in FREE_TOOLS:
            decision = await self._books.admit(_riding(request, session))
        elif request.turn is None:
            decision = turn_unknown()
        else:
            decision = await self._counted(session, request, request.turn)
        if is_model and isinstance(decision, Reserved):
            session.model_turn = request.turn
        return decision

    async def _counted(
        self, session: TurnSession, request: AdmissionRequest, turn: TurnId
    ) -> Decision:
        """Admit a call as part of `turn`, which it may be the first one of."""
        denied = await self._enter(session, turn)
        if denied is not None:
            return denied
        is_stored = False
        try:
            decision = await self._books.admit(request)
            is_stored = isinstance(decision, Reserved)
        finally:
            session.leave(turn, is_stored=is_stored)
        return decision

    def observed(self, result: ToolResult, record: CallRecord) -> ToolResult:
        """Take note of a call that ended, and return its result with what the model must know."""
        session = self._sessions.get(record.chain.session)
        if session is None:
            return result
        self._note(session, record)
        if not session.is_limited:
            return result
        result = result.with_meta(**{TURNS_META: turns_json(session)})
        standing = session.standing
        text = reminder(session.terms, standing) if session.terms.note_results else None
        if text is None or standing.remaining in session.reminded:
            return result
        session.reminded.add(standing.remaining or 0)
        return result.with_note(text)

    def observed_chat(self, record: CallRecord) -> Mapping[str, object] | None:
        """Take note of a model call that ended, and return how its session stands."""
        session = self._sessions.get(record.chain.session)
        if session is None or not session.is_limited:
            return None
        self._note(session, record)
        return turns_json(session)

    async def chat_note(
        self, chain: ScopeChain, *, turn: TurnId | None, task_class: TaskClass | None
    ) -> str | None:
        """Return what a model must be told before it begins or goes on with `turn`."""
        try:
            session = await self._session(chain, task_class)
        except _DOWN:
            return None  # the admission that follows says what is wrong
        if not session.is_limited or not session.terms.note_chats:
            return None
        standing = session.standing
        if not session.knows(turn):
            if standing.remaining == 0:
                return None
            standing = replace(standing, used=standing.used + 1)
        return reminder(session.terms, standing)

    async def extend(
        self, chain: ScopeChain, *, reason: str, asked: int | None = None
    ) -> tuple[Extended | NotExtended, Mapping[str, object]]:
        """Give the session more turns if that is decided; return that and how it stands then.

        Raises:
            LedgerUnavailableError: what was decided cannot be kept, so it does not hold.
            LedgerOverloadedError: as above.
        """
        session = await self._session(chain, None)
        async with session.lock:
            session.learn(await self._store.known(chain.session))
            decision = await self._decide(session, reason=reason, asked=asked)
        return decision, turns_json(session)

    async def standing(self, chain: ScopeChain) -> Mapping[str, object] | None:
        """Return how the session stands; None where it is not limited or nobody can say."""
        try:
            session = await self._session(chain, None)
        except _DOWN:
            return None
        return turns_json(session) if session.is_limited else None

    async def _enter(self, session: TurnSession, turn: TurnId) -> Denied | None:
        """Enter the turn, which `leave` must follow, or return why it cannot begin."""
        async with session.lock:
            if session.knows(turn):
                session.enter(turn)
                return None
            try:
                left = session.standing.remaining or 0
                if self._is_shared or left <= max(session.terms.remind_at, default=0):
                    # Near the end: what an administrator or another replica did must be known.
                    session.learn(await self._store.known(session.chain.session))
                if session.standing.remaining == 0 and session.terms.automatic:
                    await self._decide(session, reason=_AUTOMATIC, asked=None)
                if session.standing.remaining == 0:
                    return await self._cut(session)
            except _DOWN as error:
                return _unavailable(error)
            session.enter(turn)
            return None

    async def _cut(self, session: TurnSession) -> Denied:
        if not session.was_cut:
            await self._store.mark_cut(session.chain.session)
            session.was_cut = True
        return turn_limit_denied(session.terms, session.standing)

    async def _decide(
        self, session: TurnSession, *, reason: str, asked: int | None
    ) -> Extended | NotExtended:
        standing = session.standing
        decision = decide_extension(
            session.terms,
            standing,
            progress=session.trail.progress,
            affordable=await self._affordable(session),
            outlook=session.outlook,
            asked=asked,
        )
        if isinstance(decision, Extended):
            await self._store.extend(
                session.chain, turns=decision.turns, reason=reason, now_ms=self._clock.now_ms()
            )
            session.note_extension(decision.turns)
        telemetry.count_extension(
            "granted" if isinstance(decision, Extended) else decision.reason.value
        )
        return decision

    async def _affordable(self, session: TurnSession) -> int | None:
        """Return how many turns the budgets allow; none while nobody can say."""
        lines = await self._books.standing(session.chain)
        if lines is None:
            return 0
        remaining = [
            (Unit(str(line["unit"])), left)
            for line in lines
            if isinstance(left := line.get("remaining"), int)
            and line.get("unit") in {Unit.TURNS, Unit.COST_MICROUSD}
        ]
        return affordable_turns(
            remaining, used=session.standing.used, cost_microusd=session.cost_microusd
        )

    async def _session(self, chain: ScopeChain, task_class: TaskClass | None) -> TurnSession:
        """Return the session, read from the store when this process meets it first."""
        session = self._sessions.get(chain.session)
        if session is None:
            opened = await self._opened(chain, task_class)
            # Two calls may have met it at once: the first one in stands.
            session = self._sessions.setdefault(chain.session, opened)
            self._forget_some()
        self._sessions.move_to_end(chain.session)
        return session

    async def _opened(self, chain: ScopeChain, task_class: TaskClass | None) -> TurnSession:
        known = await self._store.known(chain.session)
        # The first word stands: a session does not change its class to change its limit.
        named = known.task_class or self._policy.class_of(chain.agent, asked=task_class)
        terms = self._policy.terms_for(tenant=chain.tenant, agent=chain.agent, task_class=named)
        base, outlook = known.base, None
        is_same = known.task_class is not None and known.mode is terms.mode
        if terms.mode is TurnMode.PERCENTILE and is_same and base is not None:
            pass  # learned when the session began; later sessions do not move its limit
        else:
            history = await self._history(chain, named, terms.mode)
            base, outlook = base_turns(terms, history), outlook_of(terms, history)
        if not is_same or base != known.base:
            await self._store.begin(
                chain, task_class=named, mode=terms.mode, base=base, now_ms=self._clock.now_ms()
            )
        session = TurnSession(
            chain=chain, task_class=named, terms=terms, base=base, outlook=outlook
        )
        session.recall(known)
        return session

    async def _history(
        self, chain: ScopeChain, task_class: TaskClass, mode: TurnMode
    ) -> tuple[FinishedSession, ...]:
        if mode not in {TurnMode.PERCENTILE, TurnMode.DYNAMIC}:
            return ()
        return await self._store.history(tenant=chain.tenant, task_class=task_class)

    def _forget_some(self) -> None:
        """Forget the sessions that rest the longest; the store knows them."""
        while len(self._sessions) > SESSIONS_MAX:
            oldest = next((key for key, one in self._sessions.items() if one.is_idle), None)
            if oldest is None:
                return
            del self._sessions[oldest]

    def _note(self, session: TurnSession, record: CallRecord) -> None:
        if record.usage is not None:
            session.cost_microusd += record.usage.measured.of(Unit.COST_MICROUSD)
        if record.kind is CallKind.TOOL and record.arguments_hash is not None:
            printed = CallPrint(
                tool=record.name,
                arguments_hash=record.arguments_hash,
                result_hash=record.result_hash,
                is_success=record.status is CallStatus.OK,
            )
            brought = session.trail.note(printed)
            telemetry.count_answer(backend=record.backend, brought=brought)
            if self._heard is not None:
                self._heard(record, brought, is_looping=session.trail.progress.is_looping)


def _unavailable(error: Exception) -> Denied:
    """Return the denial while nobody can say how many turns a session has taken."""
    if isinstance(error, LedgerOverloadedError):
        return overloaded(OVERLOAD_RETRY_MS)
    telemetry.count_failure("turns")
    return ledger_unavailable()


def _riding(request: AdmissionRequest, session: TurnSession) -> AdmissionRequest:
    """Return a question to the governor as part of the last turn.

    It opens none of its own: it must be possible after the last one, and must not be a door
    through which other calls of a further turn slip.
    """
    return request if session.last_turn is None else replace(request, turn=session.last_turn)
