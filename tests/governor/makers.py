"""Small values for the governor's tests: what a test does not name does not matter to it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from governor.account import Account, Balance, BalanceKey
from governor.admission import AdmissionRequest, admit
from governor.amounts import NOTHING, Amounts, Unit
from governor.approval import Approval
from governor.budget import Budget, accounts_for
from governor.events import Ended, Expired, Released, Reserved, Settled
from governor.ids import (
    ApprovalId,
    BudgetId,
    CallId,
    PrincipalId,
    ReservationId,
    SessionId,
    TenantId,
    ToolName,
    TurnId,
)
from governor.reservation import Reservation
from governor.scope import ScopeChain, ScopeKind
from governor.target import CallKind, CallTarget
from governor.window import Fixed, Lifetime, Window

TENANT = TenantId("acme")
CHAIN = ScopeChain(tenant=TENANT, agent=PrincipalId("ada"), session=SessionId("ada/one"))
TARGET = CallTarget(kind=CallKind.TOOL, name="tool", upstream="tools")
NOW_MS = 1_000_000


def amounts(**values: int) -> Amounts:
    return Amounts({Unit(name): value for name, value in values.items()})


def budget(
    name: str = "house",
    *,
    scope: ScopeKind = ScopeKind.TENANT,
    subject: str | None = None,
    tenant: TenantId = TENANT,
    window: Window | None = None,
    **limits: int,
) -> Budget:
    return Budget(
        budget_id=BudgetId(name),
        tenant=tenant,
        scope=scope,
        subject=subject,
        limits=amounts(**(limits or {"tool_calls": 10})),
        window=window or Lifetime(),
    )


_QUESTION = Approval(
    approval_id=ApprovalId("apr_1"),
    reservation_id=ReservationId("res_1"),
    call_id=CallId("call_1"),
    chain=CHAIN,
    turn=None,
    tool=ToolName("files__delete"),
    arguments="{}",
    arguments_hash="hash",
    backend="files",
    rule="ask",
    policy_version="1",
    estimate=NOTHING,
    created_at_ms=1_000,
    expires_at_ms=60_000,
)


def question(about: AdmissionRequest | Reservation | None = None, **named: Any) -> Approval:
    """Return a question to a person, about a call that holds its estimate if one is given."""
    asked = _QUESTION
    if about is not None:
        asked = replace(
            asked,
            approval_id=ApprovalId(f"apr_{about.call_id}"),
            reservation_id=about.reservation_id,
            call_id=about.call_id,
            chain=about.chain,
        )
    return replace(asked, **named)


def balance(
    name: str = "house",
    *,
    unit: Unit = Unit.TOOL_CALLS,
    scope: ScopeKind = ScopeKind.TENANT,
    limit: int = 10,
    settled: int = 0,
    reserved: int = 0,
    resets_at_ms: int | None = None,
) -> Balance:
    key = BalanceKey(
        budget_id=BudgetId(name), subject=CHAIN.subject_of(scope), unit=unit, window_start_ms=0
    )
    account = Account(key=key, scope=scope, limit=limit, resets_at_ms=resets_at_ms)
    return Balance(account, settled, reserved)


def request(
    estimate: Amounts | None = None,
    *,
    number: int = 1,
    chain: ScopeChain = CHAIN,
    turn: str | None = "turn-1",
    now_ms: int = NOW_MS,
    unmeasurable: Mapping[Unit, str] | None = None,
) -> AdmissionRequest:
    return AdmissionRequest(
        reservation_id=ReservationId(f"res_{number}"),
        call_id=CallId(f"call_{number}"),
        target=TARGET,
        chain=chain,
        session_name="one",
        estimate=amounts(tool_calls=1) if estimate is None else estimate,
        turn=None if turn is None else TurnId(turn),
        now_ms=now_ms,
        expires_at_ms=now_ms + 60_000,
        unmeasurable=unmeasurable or {},
    )


@dataclass
class Books:
    """The fold of events into balances, as a ledger would keep them, and nothing else."""

    budgets: tuple[Budget, ...]
    settled: dict[BalanceKey, int] = field(default_factory=dict)
    reserved: dict[BalanceKey, int] = field(default_factory=dict)
    overrun: dict[BalanceKey, int] = field(default_factory=dict)
    live: dict[ReservationId, Reservation] = field(default_factory=dict)
    endings: dict[ReservationId, list[type[Ended]]] = field(default_factory=dict)

    def balances(self, chain: ScopeChain, now_ms: int) -> tuple[Balance, ...]:
        return tuple(
            Balance(
                account,
                sum(self.settled.get(key, 0) for key in account.keys),
                sum(self.reserved.get(key, 0) for key in account.keys),
            )
            for account in accounts_for(self.budgets, chain, TARGET, now_ms)
        )

    def note(self, event: Reserved | Ended) -> None:
        match event:
            case Reserved(reservation=reservation):
                assert reservation.reservation_id not in self.endings, "an id is used once"
                self.endings[reservation.reservation_id] = []
                self.live[reservation.reservation_id] = reservation
                for line in reservation.lines:
                    self.reserved[line.key] = self.reserved.get(line.key, 0) + line.amount
            case Settled() | Released() | Expired():
                ended = event.reservation.reservation_id
                self.endings[ended].append(type(event))
                del self.live[ended]
                for charge in event.charges:
                    self.reserved[charge.key] -= charge.held
                    self.settled[charge.key] = self.settled.get(charge.key, 0) + charge.charged
                    self.overrun[charge.key] = self.overrun.get(charge.key, 0) + charge.overrun


FIXED_HOUR = Fixed(3_600_000)


def held(accounts: Iterable[Balance], estimate: Amounts | None = None) -> Reserved:
    """Return the hold that admission puts on `accounts` for one call."""
    decision = admit(request(estimate), tuple(accounts), is_turn_new=False)
    assert isinstance(decision, Reserved)
    return decision
