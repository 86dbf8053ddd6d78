"""What the house does for itself, admitted and settled in the ledger like any call."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from governor.admission import AdmissionRequest
from governor.amounts import Amounts, Unit
from governor.budget import Budget
from governor.call import CallRecord, CallStatus
from governor.denial import Denied
from governor.events import KeyReused, Replayed, Reserved, Settled
from governor.ids import BudgetId, CallId, PrincipalId, ReservationId, TenantId
from governor.scope import ScopeChain, ScopeKind
from governor.target import CallKind, CallTarget
from governor.usage import Usage
from governor.window import Fixed
from memory_store.audit import Actor
from memory_store.budgets import BudgetView
from memory_store.errors import AlreadyExistsError, StoreError
from memory_store.lessons.questions import QuietWork
from memory_store.sessions import session_id_for
from tool_gateway import telemetry
from tool_gateway.ports import Clock

# No principal has such an id: nobody else is charged as the house.
HOUSE = PrincipalId("house:memory")
SESSION = "sleep"
_DAY_MS = 86_400_000
_HOLD_MS = 600_000
_ACTOR = Actor(name="house")
_TOOL = "memory_sleep"
_READ = Unit.MEMORY_READ_TOKENS


class Books(Protocol):
    """The ledger as a governed path uses it."""

    async def admit(self, request: AdmissionRequest) -> Reserved | Denied | Replayed | KeyReused:
        """Hold the estimate, or say why not."""
        ...

    async def end(self, reservation_id: ReservationId, record: CallRecord) -> Settled | None:
        """End the hold."""
        ...

    async def charged_to(self, chain: ScopeChain) -> Amounts | None:
        """Return what a session was charged so far; None while nobody can say."""
        ...


class Budgets(Protocol):
    """Where budgets are made."""

    async def create(self, budget: Budget, *, by: Actor, now_ms: int) -> BudgetView:
        """Return the new budget."""
        ...


class Works(Protocol):
    """Where it is kept what was done."""

    async def note_work(self, work: QuietWork) -> None:
        """Keep what was done in quiet hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one work has read and made, and what it cost beside what others are charged."""

    read_tokens: int = 0
    made: int = 0
    cost_microusd: int = 0


class Allowance:
    """Lets the house work for a tenant as long as the budget of its own allows it."""

    def __init__(
        self, books: Books, budgets: Budgets, works: Works, *, clock: Clock, limits: Amounts
    ) -> None:
        """Take the ledger; `limits` are what the house may use for a tenant in a day.

        They are a budget of their own, that an administrator changes like any other once made.
        """
        self._books = books
        self._budgets = budgets
        self._works = works
        self._clock = clock
        self._limits = limits
        self._budgeted: set[TenantId] = set()

    async def work(
        self,
        tenant: TenantId,
        name: str,
        *,
        read_tokens: int,
        do: Callable[[], Awaitable[Spent]],
        kept_as: str | None = None,
    ) -> Spent | None:
        """Return what was spent on a work; None where no budget allows it, and nothing is done.

        What was done is kept under its name, or `kept_as` another that says more.

        Raises:
            StoreError: it could not be done; what it had held is charged.
        """
        await self.ready(tenant)
        began_ms = self._clock.now_ms()
        request = self._request(tenant, read_tokens=read_tokens, now_ms=began_ms)
        decision = await self._books.admit(request)
        if not isinstance(decision, Reserved):
            telemetry.count_quiet_work(name, outcome="denied")
            return None
        spent, status = Spent(read_tokens=read_tokens), CallStatus.TOOL_ERROR
        try:
            paid = await self.paid(tenant)
            spent = await do()
            # What a model was asked is in the ledger as calls of its own.
            spent = replace(spent, cost_microusd=max(0, await self.paid(tenant) - paid))
            status = CallStatus.OK
        finally:
            ended_ms = self._clock.now_ms()
            usage = _used(spent, wall_ms=ended_ms - began_ms)
            record = _record(request, name, status=status, usage=usage, ended_at_ms=ended_ms)
            await self._books.end(request.reservation_id, record)
            outcome = "done" if status is CallStatus.OK else "failed"
            telemetry.count_quiet_work(name, outcome=outcome, tokens=spent.read_tokens)
        await self._note(request, kept_as or name, spent, wall_ms=ended_ms - began_ms)
        return spent

    def chain(self, tenant: TenantId) -> ScopeChain:
        """Return who is charged for what the house does for a tenant."""
        session = session_id_for(HOUSE, self.session_name(tenant))
        return ScopeChain(tenant=tenant, agent=HOUSE, session=session)

    def session_name(self, tenant: TenantId) -> str:
        """Return what the house calls its session for a tenant."""
        return f"{SESSION}/{tenant}"

    async def paid(self, tenant: TenantId) -> int:
        """Return what the house was charged so far for a tenant, in micro-dollars."""
        charged = await self._books.charged_to(self.chain(tenant))
        return 0 if charged is None else charged.of(Unit.COST_MICROUSD)

    async def ready(self, tenant: TenantId) -> None:
        """Return when the house has a budget for a tenant.

        Raises:
            StoreError: it could not be made.
        """
        if tenant in self._budgeted:
            return
        budget = Budget(
            budget_id=BudgetId(f"sleep-{tenant}"),
            tenant=tenant,
            scope=ScopeKind.AGENT,
            subject=HOUSE,
            limits=self._limits,
            window=Fixed(_DAY_MS),
        )
        # Once it is made, an administrator owns it.
        with suppress(AlreadyExistsError):
            await self._budgets.create(budget, by=_ACTOR, now_ms=self._clock.now_ms())
        self._budgeted.add(tenant)

    def _request(self, tenant: TenantId, *, read_tokens: int, now_ms: int) -> AdmissionRequest:
        return AdmissionRequest(
            reservation_id=ReservationId(self._clock.fresh("res")),
            call_id=CallId(self._clock.fresh("call")),
            target=CallTarget(kind=CallKind.TOOL, name=_TOOL),
            chain=self.chain(tenant),
            session_name=self.session_name(tenant),
            estimate=Amounts({Unit.TOOL_CALLS: 1, _READ: read_tokens}),
            turn=None,
            now_ms=now_ms,
            expires_at_ms=now_ms + _HOLD_MS,
            leaves_at_once=True,
        )

    async def _note(
        self, request: AdmissionRequest, name: str, spent: Spent, *, wall_ms: int
    ) -> None:
        work = QuietWork(
            call_id=request.call_id,
            tenant=request.chain.tenant,
            work=name,
            began_at_ms=request.now_ms,
            wall_ms=max(0, wall_ms),
            tokens=spent.read_tokens,
            cost_microusd=spent.cost_microusd,
            made=spent.made,
        )
        try:
            await self._works.note_work(work)
        except StoreError:
            telemetry.count_failure("sleep_account")


def _used(spent: Spent, *, wall_ms: int) -> Usage:
    return Usage(
        measured=Amounts(
            {Unit.TOOL_CALLS: 1, Unit.WALL_MS: max(0, wall_ms), _READ: spent.read_tokens}
        )
    )


def _record(
    request: AdmissionRequest, name: str, *, status: CallStatus, usage: Usage, ended_at_ms: int
) -> CallRecord:
    return CallRecord(
        call_id=request.call_id,
        kind=CallKind.TOOL,
        name=_TOOL,
        chain=request.chain,
        turn=None,
        status=status,
        started_at_ms=request.now_ms,
        ended_at_ms=ended_at_ms,
        arguments="{}",
        backend="house",
        rule="sleep",
        policy_version="",
        estimate=request.estimate,
        usage=usage,
        detail=name,
    )
