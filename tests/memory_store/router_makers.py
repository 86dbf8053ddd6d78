"""Choices of the router as tests keep them."""

from typing import Any

from governor.ids import CallId, PrincipalId, SessionId, TenantId, TierName, TurnId
from governor.learning.verdict import Source
from memory_store.router_log import OutcomeReport, RouterDecision, RouterEnd

OPTIONS = '[["low",0.5,10.0,0.9],["high",0.8,100.0,0.1]]'


def decision(name: str, *, at_ms: int = 1_000, **more: Any) -> RouterDecision:
    return RouterDecision(
        **{
            "call_id": CallId(f"call_{name}"),
            "decided_at_ms": at_ms,
            "tenant": TenantId("acme"),
            "agent": PrincipalId("ada"),
            "session": SessionId("ses_1"),
            "turn": TurnId("t1"),
            "task_class": None,
            "policy": "cold",
            "model": None,
            "tier": TierName("low"),
            "propensity": 0.9,
            "explored": False,
            "price": 1e-6,
            "options": OPTIONS,
            "features": b"\x00\xff\x01",
            **more,
        }
    )


def end(name: str, **more: Any) -> RouterEnd:
    return RouterEnd(
        **{
            "call_id": CallId(f"call_{name}"),
            "status": "ok",
            "cost_microusd": 12,
            "output_tokens": 3,
            "latency_ms": 40,
            "ended_at_ms": 1_040,
            **more,
        }
    )


def report(name: str, score: float, **more: Any) -> OutcomeReport:
    return OutcomeReport(
        **{
            "call_id": CallId(f"call_{name}"),
            "source": Source.USER,
            "reported_by": "ada",
            "score": score,
            "weight": 0.5,
            "is_trusted": False,
            "reported_at_ms": 2_000,
            **more,
        }
    )


def ends_of(decisions: tuple[RouterDecision, ...]) -> tuple[RouterEnd, ...]:
    """Return that the calls of choices were served."""
    return tuple(end("", call_id=one.call_id) for one in decisions)
