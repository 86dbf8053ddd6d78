"""What happened lately, as JSON."""

from collections.abc import Mapping

from pydantic import Field

from governor.budget import BudgetKind
from governor.call import CallStatus
from governor.denial import DenialReason
from governor.forecast import empties_at_ms, pace_per_hour
from governor.ids import PrincipalId, SessionId, TenantId
from governor.window import Sliding
from memory_store.accounts import BalanceView
from memory_store.glance import SessionKnown
from memory_store.lately import Lately
from runtime.admin.shapes.budgets import BalanceOut, balance_out
from runtime.admin.shapes.fields import Out, Shape


class LatelyFilters(Shape):
    """Whose things are wanted; without any, everybody's."""

    tenant: TenantId | None = None
    agent: PrincipalId | None = None


class BurningOut(BalanceOut):
    """How one unit of a budget stands, and how fast it is used."""

    last_hour: int | None = Field(
        description="how much of the unit was charged since `charges_since_ms`; null for rates "
        "and slots"
    )
    per_hour: int | None = Field(
        description="how much of the unit an hour takes at the pace since its first charge "
        "in the last hour, told over at least five minutes; null for "
        "rates and slots, which come back by themselves"
    )
    empties_at_ms: int | None = Field(
        description="when nothing is left at this pace; null if the window begins anew before, "
        "or what is used comes back as fast"
    )


class DeniedForOut(Out):
    """How often calls were denied for one reason."""

    reason: DenialReason
    count: int
    last_at_ms: int


class UnderWayOut(Out):
    """A call that runs, or waits to: for a slot, or for a person's answer."""

    call_id: str
    kind: str
    name: str
    tenant: TenantId
    agent: PrincipalId
    session: SessionId
    session_name: str | None
    forwarded: bool = Field(description="whether it was sent on to what runs it")
    started_at_ms: int


class MinuteOut(Out):
    """What ended in one minute."""

    at_ms: int
    calls: int
    denied: int
    cost_microusd: int


class LatelyOut(Out):
    """What runs now, and what the last hour brought.

    `since_ms` is later than an hour ago where very many calls ended since; the figures are of
    the time from it on.
    """

    at_ms: int
    since_ms: int
    charges_since_ms: int = Field(description="since when it is known what budgets were charged")
    budgets: list[BurningOut] = Field(description="how budgets stand, the fullest first")
    denials: list[DeniedForOut]
    running: list[UnderWayOut] = Field(description="the longest first, at most 50")
    running_total: int
    sessions_open: int
    approvals_waiting: int
    calls: dict[CallStatus, int] = Field(description="how many calls ended how")
    cost_microusd: int
    minutes: list[MinuteOut]


def lately_out(
    lately: Lately, *, now_ms: int, sessions: Mapping[SessionId, SessionKnown]
) -> LatelyOut:
    """Return what happened lately as it is shown; `sessions` are those that subjects may be."""
    return LatelyOut(
        at_ms=now_ms,
        since_ms=lately.since_ms,
        charges_since_ms=lately.charges_since_ms,
        budgets=[
            _burning(lately, view, balance_out(view, tenant, sessions=sessions), now_ms)
            for tenant, view in lately.views
        ],
        denials=[DeniedForOut.model_validate(one, from_attributes=True) for one in lately.denials],
        running=[
            UnderWayOut(
                call_id=one.call_id,
                kind=one.kind,
                name=one.name,
                tenant=one.tenant,
                agent=one.agent,
                session=one.session,
                session_name=None
                if one.session_name is None
                else f"{one.agent}/{one.session_name}",
                forwarded=one.is_forwarded,
                started_at_ms=one.started_at_ms,
            )
            for one in lately.running
        ],
        running_total=lately.running_total,
        sessions_open=lately.sessions_open,
        approvals_waiting=lately.approvals_waiting,
        calls=dict(lately.statuses),
        cost_microusd=sum(minute.cost_microusd for minute in lately.minutes),
        minutes=[MinuteOut.model_validate(one, from_attributes=True) for one in lately.minutes],
    )


def _burning(lately: Lately, view: BalanceView, shown: BalanceOut, now_ms: int) -> BurningOut:
    last_hour = per_hour = empties = None
    if view.kind is BudgetKind.ALLOWANCE:
        charged = lately.charged.get((view.budget_id, view.subject, view.unit))
        last_hour = per_hour = 0
        if charged is not None:
            last_hour = charged.amount
            per_hour = pace_per_hour(
                charged.amount,
                first_at_ms=charged.first_at_ms,
                since_ms=lately.charges_since_ms,
                now_ms=now_ms,
            )
        empties = empties_at_ms(
            remaining=view.remaining,
            per_hour=per_hour,
            now_ms=now_ms,
            resets_at_ms=view.resets_at_ms,
            returns_within_ms=view.window.length_ms if isinstance(view.window, Sliding) else None,
            limit=view.limit,
        )
    return BurningOut(
        **shown.model_dump(), last_hour=last_hour, per_hour=per_hour, empties_at_ms=empties
    )
