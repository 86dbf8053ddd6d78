"""Values for tests of ledgers, with ids that never repeat."""

import itertools
from collections.abc import Mapping

import pytest

from governor.admission import AdmissionRequest
from governor.amounts import Amounts, Unit
from governor.budget import Budget, BudgetKind, Mode, Overdraft
from governor.call import CallRecord, CallStatus, Idempotency
from governor.ids import BudgetId, CallId, PrincipalId, ReservationId, SessionId, TenantId, TurnId
from governor.scope import ScopeChain, ScopeKind
from governor.target import EVERYTHING, CallKind, CallTarget, TargetMatch
from governor.usage import Usage
from governor.window import Lifetime, Window

# For what is about the files of a state directory: a shared store has its own tests.
IN_FILES = pytest.mark.parametrize("store_url", [None], ids=["sqlite"])

TENANT = TenantId("acme")
AGENT = PrincipalId("ada")
SESSION = SessionId("ses_one")
COST = Unit.COST_MICROUSD

_fresh = itertools.count(1)


def chain(*, tenant: str = TENANT, agent: str = AGENT, session: str = SESSION) -> ScopeChain:
    return ScopeChain(tenant=TenantId(tenant), agent=PrincipalId(agent), session=SessionId(session))


def budget(
    limits: Mapping[Unit, int],
    *,
    budget_id: str = "b1",
    tenant: str = TENANT,
    scope: ScopeKind = ScopeKind.TENANT,
    subject: str | None = None,
    window: Window | None = None,
    kind: BudgetKind = BudgetKind.ALLOWANCE,
    burst: int | None = None,
    match: TargetMatch = EVERYTHING,
    mode: Mode = Mode.ENFORCE,
    overdraft: Overdraft = Overdraft.DENY,
    warn_at_permille: tuple[int, ...] = (),
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
        match=match,
        mode=mode,
        overdraft=overdraft,
        warn_at_permille=warn_at_permille,
    )


def request(
    estimate: Mapping[Unit, int],
    *,
    of: ScopeChain | None = None,
    turn: str | None = None,
    now_ms: int = 1_000,
    expires_at_ms: int = 10_000,
    key: tuple[str, str] | None = None,
) -> AdmissionRequest:
    number = next(_fresh)
    return AdmissionRequest(
        reservation_id=ReservationId(f"res_{number}"),
        call_id=CallId(f"call_{number}"),
        target=CallTarget(kind=CallKind.TOOL, name="files__read", upstream="files"),
        chain=chain() if of is None else of,
        session_name="one",
        estimate=Amounts(estimate),
        turn=None if turn is None else TurnId(turn),
        now_ms=now_ms,
        expires_at_ms=expires_at_ms,
        idempotency=None if key is None else Idempotency(key=key[0], payload_hash=key[1]),
    )


def used(measured: Mapping[Unit, int], *, unmeasured: Mapping[Unit, str] | None = None) -> Usage:
    return Usage(measured=Amounts(measured), unmeasured=unmeasured or {})


def record(
    of: AdmissionRequest,
    *,
    status: CallStatus = CallStatus.OK,
    ended_at_ms: int = 2_000,
    usage: Usage | None = None,
) -> CallRecord:
    return CallRecord(
        call_id=of.call_id,
        kind=CallKind.TOOL,
        name=of.target.name,
        chain=of.chain,
        turn=of.turn,
        status=status,
        started_at_ms=of.now_ms,
        ended_at_ms=ended_at_ms,
        arguments='{"path":"[redacted]"}',
        backend="files",
        rule="default",
        policy_version="1",
        estimate=of.estimate,
        usage=usage,
    )
