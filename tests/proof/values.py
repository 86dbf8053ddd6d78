"""Budgets, requests and records as the proofs use them."""

from collections.abc import Mapping

from governor.admission import AdmissionRequest
from governor.amounts import NOTHING, Amounts, Unit
from governor.budget import Budget, BudgetKind
from governor.call import CallRecord, CallStatus, Idempotency
from governor.ids import BudgetId, CallId, PrincipalId, ReservationId, SessionId, TenantId, TurnId
from governor.scope import ScopeChain, ScopeKind
from governor.target import CallKind, CallTarget
from governor.usage import Usage
from governor.window import Lifetime, Window

COST, TOKENS, CALLS = Unit.COST_MICROUSD, Unit.OUTPUT_TOKENS, Unit.TOOL_CALLS
UNITS = (COST, TOKENS, CALLS)
TARGET = CallTarget(kind=CallKind.TOOL, name="files__read", upstream="files")


def chain_of(tenant: str, agent: str, session: str) -> ScopeChain:
    return ScopeChain(tenant=TenantId(tenant), agent=PrincipalId(agent), session=SessionId(session))


def budget_of(
    budget_id: str,
    tenant: str,
    scope: ScopeKind,
    limits: Mapping[Unit, int],
    *,
    window: Window | None = None,
    subject: str | None = None,
    kind: BudgetKind = BudgetKind.ALLOWANCE,
    burst: int | None = None,
) -> Budget:
    return Budget(
        budget_id=BudgetId(budget_id),
        tenant=TenantId(tenant),
        scope=scope,
        subject=subject,
        limits=Amounts(limits),
        window=Lifetime() if window is None else window,
        kind=kind,
        burst=burst,
    )


def request_of(
    name: str,
    chain: ScopeChain,
    estimate: Mapping[Unit, int],
    *,
    now_ms: int,
    expires_at_ms: int,
    turn: str | None = None,
    key: tuple[str, str] | None = None,
    leaves_at_once: bool = False,
) -> AdmissionRequest:
    return AdmissionRequest(
        reservation_id=ReservationId(f"res_{name}"),
        call_id=CallId(f"call_{name}"),
        target=TARGET,
        chain=chain,
        session_name=chain.session,
        estimate=Amounts(estimate),
        turn=None if turn is None else TurnId(turn),
        now_ms=now_ms,
        expires_at_ms=expires_at_ms,
        idempotency=None if key is None else Idempotency(key=key[0], payload_hash=key[1]),
        leaves_at_once=leaves_at_once,
    )


def usage_of(measured: Mapping[Unit, int]) -> Usage:
    return Usage(measured=Amounts(measured))


def record_for(
    call_id: str,
    chain: ScopeChain,
    *,
    ended_at_ms: int,
    usage: Usage | None,
) -> CallRecord:
    return CallRecord(
        call_id=CallId(call_id),
        kind=CallKind.TOOL,
        name=TARGET.name,
        chain=chain,
        turn=None,
        status=CallStatus.RELEASED if usage is None else CallStatus.OK,
        started_at_ms=ended_at_ms,
        ended_at_ms=ended_at_ms,
        arguments="{}",
        backend=TARGET.upstream,
        rule="default",
        policy_version="1",
        estimate=NOTHING,
        usage=usage,
    )


def units_of(named: Mapping[str, int]) -> dict[Unit, int]:
    return {Unit(name): amount for name, amount in named.items()}
