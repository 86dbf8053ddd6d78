"""A ledger in memory, for tests: it passes the contract suite of the one in the database."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from governor import settlement
from governor.account import Account, Balance, BalanceKey, Booking
from governor.admission import AdmissionRequest, admit
from governor.amounts import Unit
from governor.budget import Budget, accounts_for
from governor.call import CallRecord
from governor.denial import Denied
from governor.events import (
    Charge,
    Ended,
    Expired,
    KeyReused,
    Released,
    Replayed,
    Reserved,
    Settled,
    Warned,
)
from governor.ids import BudgetId, CallId, PrincipalId, ReservationId, SessionId, TenantId, TurnId
from governor.refusal import clock_stepped_back, session_denied
from governor.reservation import Reservation, ReservationState
from governor.scope import ScopeChain
from governor.session import SessionState
from governor.target import CallTarget
from governor.usage import Usage
from governor.window import CLOCK_BACK_MS_MAX
from memory_store.accounts import BalanceView
from memory_store.errors import AlreadyExistsError, SessionOwnerError, UnknownReservationError
from memory_store.records import Hold, expired_record
from memory_store.standing import WHOLE, Asked, Part, views


@dataclass(slots=True)
class _Amounts:
    settled: int = 0
    reserved: int = 0
    overrun: int = 0


@dataclass(slots=True)
class _Session:
    tenant: TenantId
    agent: PrincipalId
    state: SessionState = SessionState.OPEN


@dataclass(slots=True, kw_only=True)
class MemoryLedger:
    """The ledger's decisions over dictionaries; `records` holds each call that ended.

    No method awaits anything, so each is one transaction by itself. It knows no
    sub-sessions: what opens and closes them is the store.
    """

    budgets: dict[BudgetId, Budget] = field(default_factory=dict)
    records: list[CallRecord] = field(default_factory=list)
    _accounts: dict[BalanceKey, _Amounts] = field(default_factory=dict)
    _holds: dict[ReservationId, Hold] = field(default_factory=dict)
    # As the budgets were when the hold was made; a later change is the next call's.
    _described: dict[ReservationId, tuple[Account, ...]] = field(default_factory=dict)
    _lasting: set[ReservationId] = field(default_factory=set)
    _calls: set[CallId] = field(default_factory=set)
    _sessions: dict[SessionId, _Session] = field(default_factory=dict)
    _turns: dict[tuple[SessionId, TurnId], ReservationId] = field(default_factory=dict)
    _keys: dict[tuple[PrincipalId, str], tuple[ReservationId, str]] = field(default_factory=dict)
    _latest_ms: int = 0

    def put_budget(self, budget: Budget) -> None:
        """Make `budget` govern the next admission."""
        self.budgets[budget.budget_id] = budget

    def close_session(self, session: SessionId) -> None:
        """Deny every further call of a session that was seen."""
        self._sessions[session].state = SessionState.CLOSED

    async def admit(self, request: AdmissionRequest) -> Reserved | Denied | Replayed | KeyReused:
        """Hold the estimate on every budget of the chain, or say why not."""
        chain = request.chain
        if self._latest_ms - request.now_ms > CLOCK_BACK_MS_MAX:
            return clock_stepped_back(back_ms=self._latest_ms - request.now_ms)
        session = self._sessions.setdefault(
            chain.session, _Session(tenant=chain.tenant, agent=chain.agent)
        )
        if (session.tenant, session.agent) != (chain.tenant, chain.agent):
            raise SessionOwnerError
        idempotency = request.idempotency
        if idempotency is not None and (chain.agent, idempotency.key) in self._keys:
            reservation_id, payload_hash = self._keys[chain.agent, idempotency.key]
            original = self._holds[reservation_id].reservation
            is_same = payload_hash == idempotency.payload_hash
            return Replayed(original=original) if is_same else KeyReused(original=original)

        self._latest_ms = max(self._latest_ms, request.now_ms)
        accounts = self._accounts_of(chain, request.target, request.now_ms)
        decision = admit(
            request,
            [self._balance(account) for account in accounts],
            is_turn_new=request.turn is not None
            and (chain.session, request.turn) not in self._turns,
            session=session.state,
        )
        if isinstance(decision, Reserved):
            self._store(request, decision, accounts)
        return decision

    async def forward(self, reservation_id: ReservationId) -> Denied | None:
        """Mark the hold before the first upstream byte, unless its session is open no more."""
        forwarded = settlement.forward(self._hold(reservation_id).reservation)
        denied = session_denied(self._sessions[forwarded.chain.session].state)
        if denied is None:
            self._replace(forwarded)
        return denied

    async def settle(
        self, reservation_id: ReservationId, usage: Usage, record: CallRecord
    ) -> Settled:
        """Charge what was used and free the rest."""
        hold = self._hold(reservation_id)
        settled = settlement.settle(hold.reservation, usage)
        self._end(settled, record)
        standing = tuple(map(self._balance, self._described[reservation_id]))
        return replace(settled, standing=standing, warned=_warned(standing, settled.charges))

    async def release(self, reservation_id: ReservationId, record: CallRecord) -> Released:
        """Free what was held for a call that provably consumed nothing."""
        released = settlement.release(self._hold(reservation_id).reservation)
        self._end(released, record)
        self._free_key(reservation_id)
        return released

    async def expire_due(
        self,
        *,
        now_ms: int,
        all_live: bool = False,
        is_running: Callable[[ReservationId], bool] = lambda _: False,
    ) -> tuple[Expired, ...]:
        """End the holds whose time has passed, and all that do not outlive a process."""
        due = sorted(
            (
                hold
                for name, hold in self._holds.items()
                if hold.reservation.is_live
                and not is_running(name)
                and (
                    hold.reservation.expires_at_ms <= now_ms
                    or (all_live and name not in self._lasting)
                )
            ),
            key=lambda hold: (hold.reservation.expires_at_ms, hold.reservation.reservation_id),
        )
        return tuple(self._expire(hold, now_ms) for hold in due)

    async def balances(
        self,
        *,
        tenant: TenantId,
        agent: PrincipalId | None = None,
        session: SessionId | None = None,
        now_ms: int,
        part: Part = WHOLE,
    ) -> tuple[BalanceView, ...]:
        """Return how the budgets stand, narrowed to an agent or a session if one is given."""
        own = None
        if agent is not None:
            own = [name for name, seen in self._sessions.items() if seen.agent == agent]
        asked = Asked(
            agent=agent, session=session, chain=() if session is None else (session,), own=own
        )
        mine = (budget for budget in self.budgets.values() if budget.tenant == tenant)
        return tuple(views(tuple(mine), self._used, asked, now_ms, part))[: part.limit]

    def _accounts_of(
        self, chain: ScopeChain, target: CallTarget, now_ms: int
    ) -> tuple[Account, ...]:
        return accounts_for(self.budgets.values(), chain, target, now_ms)

    def _balance(self, account: Account) -> Balance:
        parts = (self._accounts.get(key, _Amounts()) for key in account.keys)
        return Balance.over(account, ((part.settled, part.reserved) for part in parts))

    def _used(
        self, budget: Budget, starts: Collection[int]
    ) -> dict[tuple[str, Unit], tuple[int, int, int]]:
        used: dict[tuple[str, Unit], tuple[int, int, int]] = {}
        for key, amounts in self._accounts.items():
            if key.budget_id == budget.budget_id and key.window_start_ms in starts:
                place = (key.subject, key.unit)
                settled, reserved, overrun = used.get(place, (0, 0, 0))
                used[place] = (
                    settled + amounts.settled,
                    reserved + amounts.reserved,
                    overrun + amounts.overrun,
                )
        return used

    def _store(
        self, request: AdmissionRequest, reserved: Reserved, accounts: Sequence[Account]
    ) -> None:
        reservation = reserved.reservation
        if reservation.reservation_id in self._holds or reservation.call_id in self._calls:
            message = "the id of the reservation or of the call was used before"
            raise AlreadyExistsError(message)
        self._calls.add(reservation.call_id)
        opens_turn = request.turn is not None and reserved.amount.of(Unit.TURNS) > 0
        self._holds[reservation.reservation_id] = Hold(
            reservation=reservation,
            target=request.target,
            turn=request.turn,
            estimate=request.estimate,
            opens_turn=opens_turn,
            created_at_ms=request.now_ms,
        )
        self._described[reservation.reservation_id] = tuple(accounts)
        if request.outlives_process:
            self._lasting.add(reservation.reservation_id)
        for account, line in zip(accounts, reservation.lines, strict=True):
            amounts = self._accounts.setdefault(line.key, _Amounts())
            if account.rate is None:
                amounts.reserved += line.amount
            else:
                amounts.settled = account.rate.after(amounts.settled, line.amount, request.now_ms)
        if request.turn is not None and opens_turn:
            self._turns[request.chain.session, request.turn] = reservation.reservation_id
        if request.idempotency is not None:
            self._keys[request.chain.agent, request.idempotency.key] = (
                reservation.reservation_id,
                request.idempotency.payload_hash,
            )

    def _hold(self, reservation_id: ReservationId) -> Hold:
        try:
            return self._holds[reservation_id]
        except KeyError:
            message = f"there is no reservation {reservation_id}"
            raise UnknownReservationError(message) from None

    def _replace(self, reservation: Reservation) -> None:
        hold = self._holds[reservation.reservation_id]
        self._holds[reservation.reservation_id] = replace(hold, reservation=reservation)

    def _end(self, ended: Ended, record: CallRecord) -> None:
        assert record.call_id == ended.reservation.call_id, "the record is of another call"
        self._replace(ended.reservation)
        for charge in ended.charges:
            began_ms = self._holds[ended.reservation.reservation_id].created_at_ms
            elapsed_ms = max(record.ended_at_ms, self._latest_ms) - began_ms
            _book(self._accounts[charge.key], charge, elapsed_ms=elapsed_ms)
        self.records.append(record)

    def _expire(self, hold: Hold, now_ms: int) -> Expired:
        expired = settlement.expire(hold.reservation)
        self._end(expired, expired_record(hold, now_ms=now_ms))
        if hold.reservation.state is ReservationState.HELD:
            self._free_key(hold.reservation.reservation_id)
        return expired

    def _free_key(self, reservation_id: ReservationId) -> None:
        self._keys = {key: by for key, by in self._keys.items() if by[0] != reservation_id}


def _warned(standing: Iterable[Balance], charges: Iterable[Charge]) -> tuple[Warned, ...]:
    """Return the thresholds that the charges reached."""
    charged = {charge.key: charge.charged for charge in charges}
    return tuple(
        Warned(balance, at)
        for balance in standing
        for at in balance.account.warn_at
        if balance.settled - charged.get(balance.key, 0) < at <= balance.settled
    )


def _book(amounts: _Amounts, charge: Charge, *, elapsed_ms: int) -> None:
    if charge.line.booking is Booking.RATE:
        amounts.settled = charge.line.rate_hold.corrected(
            amounts.settled, charged=charge.charged, elapsed_ms=elapsed_ms
        )
        return
    amounts.reserved -= charge.held
    amounts.settled += charge.charged
    amounts.overrun += charge.overrun
