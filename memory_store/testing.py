"""A ledger in memory, for tests: it passes the contract suite of the one in the database."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from governor import settlement
from governor.admission import AdmissionRequest, admit
from governor.amounts import Unit
from governor.budget import Balance, BalanceKey, Budget, keys_for
from governor.call import CallRecord
from governor.denial import Denied
from governor.events import Ended, Expired, KeyReused, Released, Replayed, Reserved, Settled
from governor.ids import BudgetId, CallId, PrincipalId, ReservationId, SessionId, TenantId, TurnId
from governor.reservation import Reservation, ReservationState
from governor.scope import ScopeChain
from governor.usage import Usage
from memory_store.accounts import BalanceView
from memory_store.errors import AlreadyExistsError, SessionOwnerError, UnknownReservationError
from memory_store.records import Hold, expired_record
from memory_store.standing import BALANCES_MAX, subjects_shown, views_of


@dataclass(slots=True)
class _Account:
    settled: int = 0
    reserved: int = 0
    overrun: int = 0


@dataclass(slots=True)
class _Session:
    tenant: TenantId
    agent: PrincipalId
    is_open: bool = True


@dataclass(slots=True, kw_only=True)
class MemoryLedger:
    """The ledger's decisions over dictionaries; `records` holds each call that ended.

    No method awaits anything, so each is one transaction by itself.
    """

    budgets: dict[BudgetId, Budget] = field(default_factory=dict)
    records: list[CallRecord] = field(default_factory=list)
    _accounts: dict[BalanceKey, _Account] = field(default_factory=dict)
    _holds: dict[ReservationId, Hold] = field(default_factory=dict)
    _calls: set[CallId] = field(default_factory=set)
    _sessions: dict[SessionId, _Session] = field(default_factory=dict)
    _turns: dict[tuple[SessionId, TurnId], ReservationId] = field(default_factory=dict)
    _keys: dict[tuple[PrincipalId, str], tuple[ReservationId, str]] = field(default_factory=dict)

    def put_budget(self, budget: Budget) -> None:
        """Make `budget` govern the next admission."""
        self.budgets[budget.budget_id] = budget

    def close_session(self, session: SessionId) -> None:
        """Deny every further call of a session that was seen."""
        self._sessions[session].is_open = False

    async def admit(self, request: AdmissionRequest) -> Reserved | Denied | Replayed | KeyReused:
        """Hold the estimate on every budget of the chain, or say why not."""
        chain = request.chain
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

        decision = admit(
            request,
            self._balances_for(chain, request.now_ms),
            is_turn_new=request.turn is not None
            and (chain.session, request.turn) not in self._turns,
            is_session_open=session.is_open,
        )
        if isinstance(decision, Reserved):
            self._store(request, decision)
        return decision

    async def forward(self, reservation_id: ReservationId, *, now_ms: int) -> None:
        """Mark the hold before the first upstream byte."""
        self._replace(settlement.forward(self._hold(reservation_id).reservation))

    async def settle(
        self, reservation_id: ReservationId, usage: Usage, record: CallRecord
    ) -> Settled:
        """Charge what was used and free the rest."""
        settled = settlement.settle(self._hold(reservation_id).reservation, usage)
        self._end(settled, record)
        return settled

    async def release(self, reservation_id: ReservationId, record: CallRecord) -> Released:
        """Free what was held for a call that provably consumed nothing."""
        released = settlement.release(self._hold(reservation_id).reservation)
        self._end(released, record)
        self._free_key(reservation_id)
        return released

    async def expire_due(self, *, now_ms: int, all_live: bool = False) -> tuple[Expired, ...]:
        """End the holds whose time has passed, or all of them."""
        due = sorted(
            (
                hold
                for hold in self._holds.values()
                if hold.reservation.is_live
                and (all_live or hold.reservation.expires_at_ms <= now_ms)
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
    ) -> tuple[BalanceView, ...]:
        """Return how the budgets stand, narrowed to an agent or a session if one is given."""
        own = None
        if agent is not None:
            own = [name for name, seen in self._sessions.items() if seen.agent == agent]
        views: list[BalanceView] = []
        for budget in self._live(tenant):
            used = self._used(budget, now_ms)
            for subject in subjects_shown(budget, used, agent=agent, session=session, own=own):
                views.extend(views_of(budget, subject, used, now_ms))
        return tuple(views[:BALANCES_MAX])

    def _live(self, tenant: TenantId) -> Iterable[Budget]:
        mine = (budget for budget in self.budgets.values() if budget.tenant == tenant)
        return sorted(mine, key=lambda budget: budget.budget_id)

    def _balances_for(self, chain: ScopeChain, now_ms: int) -> tuple[Balance, ...]:
        found = []
        for key in keys_for(self.budgets.values(), chain, now_ms):
            budget = self.budgets[key.budget_id]
            account = self._accounts.get(key, _Account())
            found.append(
                Balance(
                    key=key,
                    scope=budget.scope,
                    limit=budget.limits.of(key.unit),
                    settled=account.settled,
                    reserved=account.reserved,
                    resets_at_ms=budget.window.resets_at_ms(now_ms),
                )
            )
        return tuple(found)

    def _used(self, budget: Budget, now_ms: int) -> dict[tuple[str, Unit], tuple[int, int, int]]:
        start_ms = budget.window.start_ms(now_ms)
        return {
            (key.subject, key.unit): (account.settled, account.reserved, account.overrun)
            for key, account in self._accounts.items()
            if (key.budget_id, key.window_start_ms) == (budget.budget_id, start_ms)
        }

    def _store(self, request: AdmissionRequest, reserved: Reserved) -> None:
        reservation = reserved.reservation
        if reservation.reservation_id in self._holds or reservation.call_id in self._calls:
            message = f"{reservation.reservation_id} or {reservation.call_id} was used before"
            raise AlreadyExistsError(message)
        self._calls.add(reservation.call_id)
        self._holds[reservation.reservation_id] = Hold(
            reservation=reservation,
            name=request.name,
            turn=request.turn,
            estimate=request.estimate,
            amount=reserved.amount,
            created_at_ms=request.now_ms,
        )
        for line in reservation.lines:
            self._accounts.setdefault(line.key, _Account()).reserved += line.amount
        if request.turn is not None:
            opened_by = reservation.reservation_id
            self._turns.setdefault((request.chain.session, request.turn), opened_by)
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
            account = self._accounts[charge.key]
            account.reserved -= charge.held
            account.settled += charge.charged
            account.overrun += charge.overrun
        self.records.append(record)

    def _expire(self, hold: Hold, now_ms: int) -> Expired:
        expired = settlement.expire(hold.reservation)
        self._end(expired, expired_record(hold, now_ms=now_ms))
        if hold.reservation.state is ReservationState.HELD:
            opened_by = hold.reservation.reservation_id
            self._turns = {turn: by for turn, by in self._turns.items() if by != opened_by}
            self._free_key(opened_by)
        return expired

    def _free_key(self, reservation_id: ReservationId) -> None:
        self._keys = {key: by for key, by in self._keys.items() if by[0] != reservation_id}
