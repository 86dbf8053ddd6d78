"""In-test ports for the gateway: small, honest, and told when to fail or to wait."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import anyio

from governor.admission import AdmissionRequest, admit
from governor.amounts import Amounts, Unit
from governor.breaker import BreakerTerms
from governor.budget import Budget
from governor.call import CallRecord, Idempotency, Isolated, ToolCall
from governor.denial import Denied
from governor.events import Ended, KeyReused, Released, Replayed, Reserved, Settled
from governor.flow.labels import Label
from governor.flow.policy import FlowPolicy
from governor.ids import (
    ArchiveId,
    CallId,
    PrincipalId,
    ReservationId,
    SessionId,
    TaskClass,
    TenantId,
    ToolName,
    TurnId,
    UpstreamName,
)
from governor.limits import ExecutionLimits
from governor.policy import ApprovalTerms, Match, Policy, ToolRule
from governor.raising import AskTerms
from governor.refusal import session_frozen
from governor.reservation import Reservation
from governor.scope import ScopeChain
from governor.session import SessionState
from governor.settlement import forward, release, settle
from governor.turn_policy import TurnPolicy
from governor.usage import Usage
from tests.governor.makers import Books as FoldedBooks
from tests.tool_gateway.turn_makers import FakeTurnStore, a_gate
from tool_gateway.approver import Approver
from tool_gateway.books import Books
from tool_gateway.breakers import Breakers
from tool_gateway.catalog import Catalog, ToolEntry
from tool_gateway.contention import Contention
from tool_gateway.credentials import Detector, built_in
from tool_gateway.errors import (
    ArchiveMissError,
    ArchiveUnavailableError,
    HoldEndedError,
    LedgerUnavailableError,
)
from tool_gateway.guards.answers import AnswerGuard
from tool_gateway.guards.cache import ResultCache
from tool_gateway.guards.flow import FlowGuard
from tool_gateway.guards.gate import ReasoningGate
from tool_gateway.guards.outside import Outside
from tool_gateway.keeping import ResultKeeper
from tool_gateway.loop_watch import LoopWatch
from tool_gateway.pipeline import Pipeline
from tool_gateway.ports import ApprovalDesk, Archived, Clock, FlowKnown, Ledger, Meter, Slice
from tool_gateway.raising import MemoryDesk
from tool_gateway.redaction import ArgumentsKept, payload_hash
from tool_gateway.refusals import Refusals
from tool_gateway.results import Outcome, ToolResult, text_result
from tool_gateway.running import RunningCalls
from tool_gateway.schemas import ToolSchemas
from tool_gateway.turnstile import PressureGauge, Turnstile

CHAIN = ScopeChain(tenant=TenantId("acme"), agent=PrincipalId("ada"), session=SessionId("ada/one"))
LIMITS = ExecutionLimits(
    memory_bytes=None, pids=None, cpu_millis=None, cpu_ms=None, wall_ms=5_000, output_bytes=100_000
)
RULE = ToolRule(name="any", match=Match(), allow=True, limits=LIMITS, cost_microusd=7)
TOOL = ToolName("files__read")
ENTRY = ToolEntry(
    exposed=TOOL,
    original="read",
    backend=UpstreamName("files"),
    definition={"name": "read", "inputSchema": {"type": "object"}},
)


@dataclass
class FakeClock:
    """Time that stands still unless it is moved; ids that count."""

    at_ms: int = 1_000_000
    number: int = 0

    def now_ms(self) -> int:
        return self.at_ms

    def elapsed_ms(self) -> int:
        return self.at_ms

    def fresh(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}_{self.number}"


@dataclass
class FakeLedger:
    """The governor over a fold of its events; `down` names the methods that fail."""

    books: FoldedBooks
    down: set[str] = field(default_factory=set)
    error: type[Exception] = LedgerUnavailableError
    records: list[CallRecord] = field(default_factory=list)
    events: list[Reserved | Ended] = field(default_factory=list)
    forwarded: list[ReservationId] = field(default_factory=list)
    keys: dict[str, tuple[str, Reservation]] = field(default_factory=dict)
    turns: set[TurnId | None] = field(default_factory=set)
    frozen: set[SessionId] = field(default_factory=set)
    settling: anyio.Event = field(default_factory=anyio.Event)
    may_settle: anyio.Event | None = None

    async def admit(self, request: AdmissionRequest) -> Reserved | Denied | Replayed | KeyReused:
        self._fail_if_down("admit")
        if request.idempotency is not None and request.idempotency.key in self.keys:
            payload, original = self.keys[request.idempotency.key]
            if payload != request.idempotency.payload_hash:
                return KeyReused(original=original)
            return Replayed(original=self.books.live.get(original.reservation_id, original))
        balances = self.books.balances(request.chain, request.now_ms)
        is_turn_new = request.turn is not None and request.turn not in self.turns
        is_frozen = request.chain.session in self.frozen
        session = SessionState.FROZEN if is_frozen else SessionState.OPEN
        decision = admit(request, balances, is_turn_new=is_turn_new, session=session)
        if isinstance(decision, Reserved):
            self.turns.add(request.turn)
            self._note(decision)
            if request.leaves_at_once:
                self.forwarded.append(request.reservation_id)
            if request.idempotency is not None:
                key = request.idempotency
                self.keys[key.key] = (key.payload_hash, decision.reservation)
        return decision

    async def pause(self, session: SessionId, *, now_ms: int) -> bool:
        self._fail_if_down("pause")
        is_new = session not in self.frozen
        self.frozen.add(session)
        return is_new

    async def forward(self, reservation_id: ReservationId) -> Denied | None:
        self._fail_if_down("forward")
        if self.books.live[reservation_id].chain.session in self.frozen:
            return session_frozen()
        self.forwarded.append(reservation_id)
        self.books.live[reservation_id] = forward(self.books.live[reservation_id])
        return None

    async def settle(
        self, reservation_id: ReservationId, usage: Usage, record: CallRecord
    ) -> Settled:
        self.settling.set()
        if self.may_settle is not None:
            await self.may_settle.wait()
        self._fail_if_down("settle")
        settled = settle(self.books.live[reservation_id], usage)
        self._end(settled, record)
        standing = self.books.balances(CHAIN, record.ended_at_ms)
        return replace(settled, standing=standing)

    async def release(self, reservation_id: ReservationId, record: CallRecord) -> Released:
        self._fail_if_down("release")
        if reservation_id not in self.books.live:
            raise HoldEndedError
        released = release(self.books.live[reservation_id])
        self._end(released, record)
        return released

    async def record(self, record: CallRecord) -> None:
        self._fail_if_down("record")
        self.records.append(record)

    async def replay_of(self, call_id: CallId) -> ArchiveId | None:
        return next((kept.archive_id for kept in self.records if kept.call_id == call_id), None)

    async def charged_to(self, session: SessionId) -> Amounts:
        self._fail_if_down("charged_to")
        total = Amounts({})
        for kept in self.records:
            if kept.chain.session == session and kept.usage is not None:
                total = total.plus(kept.usage.measured)
        return total

    async def standing(self, chain: ScopeChain, *, now_ms: int) -> tuple[Mapping[str, object], ...]:
        return tuple(
            {
                "budget_id": account.key.budget_id,
                "scope": account.account.scope.value,
                "unit": account.key.unit.value,
                "limit": account.account.limit,
                "used": account.settled,
                "reserved": account.reserved,
                "remaining": account.remaining,
            }
            for account in self.books.balances(chain, now_ms)
        )

    def remaining(self, unit: Unit = Unit.TOOL_CALLS) -> int:
        """Return what is left of the one budget on `unit`."""
        (account,) = (
            account for account in self.books.balances(CHAIN, 0) if account.key.unit is unit
        )
        return account.remaining

    def _end(self, event: Ended, record: CallRecord) -> None:
        self._note(event)
        for key, (payload, original) in self.keys.items():
            if original.reservation_id == event.reservation.reservation_id:
                self.keys[key] = (payload, event.reservation)
        self.records.append(record)

    def _note(self, event: Reserved | Ended) -> None:
        self.books.note(event)
        self.events.append(event)

    def _fail_if_down(self, method: str) -> None:
        if method in self.down:
            raise self.error


@dataclass
class FakeArchive:
    """Results in a dictionary, each for its own agent."""

    is_down: bool = False
    kept: dict[ArchiveId, tuple[PrincipalId, bytes]] = field(default_factory=dict)

    async def put(
        self, content: bytes, *, chain: ScopeChain, call_id: CallId, media_type: str, now_ms: int
    ) -> Archived:
        if self.is_down:
            raise ArchiveUnavailableError
        archive_id = ArchiveId(f"arc_{len(self.kept) + 1}")
        self.kept[archive_id] = (chain.agent, content)
        digest = hashlib.sha256(content).hexdigest()
        return Archived(archive_id=archive_id, sha256=digest, total_bytes=len(content))

    async def read(
        self, archive_id: ArchiveId, *, chain: ScopeChain, offset: int, length: int
    ) -> Slice:
        agent, content = self.kept.get(archive_id, (None, b""))
        if agent != chain.agent:
            raise ArchiveMissError
        return Slice(
            content=content[offset : offset + length],
            offset=offset,
            total_bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )


@dataclass
class FakeFlowStore:
    """What sessions have seen, in dictionaries; `parents` are the roots of sub-sessions."""

    is_down: bool = False
    parents: dict[SessionId, SessionId] = field(default_factory=dict)
    flows: dict[SessionId, FlowKnown] = field(default_factory=dict)

    async def known(self, session: SessionId) -> FlowKnown:
        self._fail_if_down()
        root = self.parents.get(session, session)
        return self.flows.get(root, FlowKnown(root=root))

    async def mark(self, root: SessionId, labels: Mapping[Label, ToolName], *, now_ms: int) -> None:
        self._fail_if_down()
        known = self.flows.get(root, FlowKnown(root=root))
        self.flows[root] = replace(known, marks={**labels, **known.marks})

    async def say(
        self,
        root: SessionId,
        words: str,
        *,
        words_from: str,
        task_class: TaskClass | None,
        now_ms: int,
    ) -> bool:
        self._fail_if_down()
        known = self.flows.get(root, FlowKnown(root=root))
        if known.words is not None or Label.SEES_UNTRUSTED in known.marks:
            return False
        self.flows[root] = replace(known, words=words, task_class=task_class)
        return True

    def _fail_if_down(self) -> None:
        if self.is_down:
            raise LedgerUnavailableError


Behaviour = Callable[[], Awaitable[Outcome]]


async def answer_ok() -> Outcome:
    return Outcome(result=text_result("done"))


@dataclass
class FakeBackend:
    """Runs a call as the test says."""

    behave: Behaviour = answer_ok
    name: str = "files"
    unmeasurable: Mapping[Unit, str] = field(default_factory=lambda: {Unit.CPU_MS: "elsewhere"})
    isolated: Isolated | None = None
    measured: Usage | None = None
    ran: list[ToolCall] = field(default_factory=list)
    started: anyio.Event = field(default_factory=anyio.Event)

    def isolation_for(self, call: ToolCall, limits: ExecutionLimits) -> Isolated | None:
        return self.isolated

    async def run(self, call: ToolCall, limits: ExecutionLimits, meter: Meter) -> Outcome:
        meter.usage = self.measured
        self.ran.append(call)
        self.started.set()
        return await self.behave()


class House:
    """A pipeline over the fakes."""

    def __init__(
        self,
        *budgets: Budget,
        rule: ToolRule = RULE,
        behave: Behaviour = answer_ok,
        kept: ArgumentsKept = ArgumentsKept.REDACTED,
        ledger: Ledger | None = None,
        clock: Clock | None = None,
        archive: FakeArchive | None = None,
        desk: ApprovalDesk | None = None,
        contact: str | None = None,
        turns: TurnPolicy | None = None,
        turn_store: FakeTurnStore | None = None,
        contention: Contention | None = None,
        pressure: PressureGauge | None = None,
        breaker: BreakerTerms | None = None,
        flow: FlowPolicy | None = None,
        flow_store: FakeFlowStore | None = None,
        detectors: Mapping[str, Detector] | None = None,
        asks: AskTerms | None = None,
        outside: Outside | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.breakers = Breakers({"files": breaker} if breaker else {}, clock=self.clock)
        self.turnstile = Turnstile(
            contention or Contention(),
            clock=self.clock,
            pressure=pressure,
            breakers=self.breakers,
        )
        self.ledger = ledger or FakeLedger(FoldedBooks(budgets))
        self.archive = archive or FakeArchive()
        self.backend = FakeBackend(behave)
        self.running = RunningCalls()
        self.entry = ENTRY
        self.policy = Policy(version="v1", rules=(rule,), fallback=replace(rule, allow=False))
        self.books = Books(ledger=self.ledger, clock=self.clock)
        self.turns = a_gate(self.books, self.clock, policy=turns, store=turn_store)
        self.approver = self._approver(desk, kept)
        self.memory = self._memory(desk, kept, asks)
        self.flow_store = flow_store or FakeFlowStore()
        self.flow = self._flow(flow)
        self.gate = ReasoningGate(key=b"k" * 32, clock=self.clock)
        self.schemas = lambda: ToolSchemas(Catalog([self.entry]))
        keeper = ResultKeeper(archive=self.archive, ledger=self.ledger, clock=self.clock)
        self.pipeline = Pipeline(
            gate=self.gate,
            cache=ResultCache(clock=self.clock),
            flow=self.flow,
            books=self.books,
            turns=self.turns,
            approver=self.approver,
            keeper=keeper,
            answers=AnswerGuard(
                schemas=self.schemas_now,
                keeper=keeper,
                detectors=detectors or built_in(),
            ),
            clock=self.clock,
            policy=lambda: self.policy,
            running=self.running,
            arguments_kept=kept,
            # Of the ledgers that tests bring along, none has to pause a session.
            loops=LoopWatch(clock=self.clock, pausing=self.ledger),
            admin_contact=contact,
            turnstile=self.turnstile,
            memory=self.memory,
            outside=outside,
        )

    def _memory(
        self, desk: ApprovalDesk | None, kept: ArgumentsKept, terms: AskTerms | None
    ) -> MemoryDesk | None:
        if terms is None:
            return None
        return MemoryDesk(
            desk=cast("ApprovalDesk", desk),  # only administrators are asked through one
            books=self.books,
            clock=self.clock,
            arguments_kept=kept,
            terms=lambda: terms,
            refusals=Refusals(),
        )

    def _approver(self, desk: ApprovalDesk | None, kept: ArgumentsKept) -> Approver:
        # Without a desk no rule may ask a person.
        return Approver(
            desk=desk,
            books=self.books,
            turns=self.turns,
            clock=self.clock,
            arguments_kept=kept,
        )

    def _flow(self, policy: FlowPolicy | None) -> FlowGuard:
        return FlowGuard(
            policy=policy,
            approval=ApprovalTerms(wait_ms=0, ttl_ms=60_000),
            store=self.flow_store,
            clock=self.clock,
        )

    def schemas_now(self) -> ToolSchemas:
        """Return the schemas in force, which a test may say otherwise."""
        return self.schemas()

    async def run(self, call: ToolCall | None = None) -> ToolResult:
        return await self.pipeline.run(
            call or a_call(self.clock.fresh("call")),
            session_name="one",
            entry=self.entry,
            backend=self.backend,
        )

    @property
    def record(self) -> CallRecord:
        """Return the record of the one call that ended."""
        (record,) = self.ledger.records
        return record

    @property
    def ended(self) -> Ended:
        """Return how the one reservation ended."""
        reserved, ended = self.ledger.events
        assert isinstance(reserved, Reserved)
        assert not isinstance(ended, Reserved)
        return ended


def a_call(
    call_id: str = "call_0",
    *,
    key: str | None = None,
    turn: str | None = None,
    **arguments: object,
) -> ToolCall:
    return ToolCall(
        call_id=CallId(call_id),
        tool=TOOL,
        arguments=arguments,
        chain=CHAIN,
        turn=None if turn is None else TurnId(turn),
        idempotency=None
        if key is None
        else Idempotency(key=key, payload_hash=payload_hash(TOOL, arguments)),
    )


def measured(**values: int) -> Usage:
    return Usage(measured=Amounts({Unit(name): value for name, value in values.items()}))
