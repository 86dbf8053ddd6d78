"""Budgets and how far they are used, as JSON."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt

from governor.amounts import Amounts, Unit
from governor.budget import Budget, BudgetKind, Mode, Overdraft
from governor.ids import BudgetId, SessionId, TenantId
from governor.scope import ScopeKind
from memory_store.accounts import BalanceView
from memory_store.budgets import BudgetView
from memory_store.glance import SessionKnown
from runtime.admin.shapes.fields import (
    Label,
    Limits,
    Out,
    Paging,
    Shape,
    limits_shape,
)
from runtime.budget_words import Burst, Match, WarnAt, match_of, match_words
from runtime.naming import Id
from runtime.windows import WindowShape, window_of, window_shape

Subject = Annotated[
    Label | None,
    Field(
        description=(
            "the id of the one agent, or of the one session (`ses_…`), that it is for, which "
            "must exist; null gives each agent or session an allowance of its own, those to "
            "come included"
        )
    ),
]


AllowUnknown = Annotated[
    StrictBool,
    Field(description="true lets `match` name what is not configured, because it will be"),
]


class BudgetFilters(Paging):
    """Which budgets are wanted."""

    tenant: TenantId | None = None
    scope: ScopeKind | None = None


class BudgetNew(Shape):
    """A budget to make; it is given an id if it has none."""

    id: Id | None = None
    tenant: TenantId
    scope: ScopeKind
    subject: Subject = None
    limits: Limits
    window: WindowShape = "lifetime"
    kind: BudgetKind = BudgetKind.ALLOWANCE
    burst: Burst = None
    match: Match = Match()
    mode: Mode = Mode.ENFORCE
    overdraft: Overdraft = Overdraft.DENY
    warn_at_permille: WarnAt = ()
    allow_unknown: AllowUnknown = False

    def budget(self, budget_id: BudgetId) -> Budget:
        """Return the budget that is asked for.

        Raises:
            InvalidBudgetError: its parts contradict one another.
        """
        return Budget(
            budget_id=budget_id,
            tenant=self.tenant,
            scope=self.scope,
            subject=self.subject,
            limits=Amounts(self.limits),
            window=window_of(self.window),
            kind=self.kind,
            burst=self.burst,
            match=match_of(self.match),
            mode=self.mode,
            overdraft=self.overdraft,
            warn_at_permille=self.warn_at_permille,
        )


class BudgetChange(Shape):
    """A budget to change; a member that is left out keeps its value.

    The members that cannot be changed may be sent back as they were read.
    """

    scope: ScopeKind | None = None
    subject: Subject = None
    limits: Limits | None = None
    window: WindowShape | None = None
    burst: Burst = None
    match: Match | None = None
    mode: Mode | None = None
    overdraft: Overdraft | None = None
    warn_at_permille: WarnAt | None = None
    allow_unknown: AllowUnknown = False
    kind: BudgetKind | None = None
    id: BudgetId | None = None
    tenant: TenantId | None = None
    version: StrictInt | None = None

    def applied_to(self, budget: Budget) -> Budget:
        """Return `budget` after the change.

        Raises:
            InvalidBudgetError: its parts contradict one another.
        """
        # Null is a subject and no burst is one too, so leaving them out has to be told apart.
        given = self.model_fields_set
        return replace(
            budget,
            scope=self.scope or budget.scope,
            subject=self.subject if "subject" in given else budget.subject,
            limits=budget.limits if self.limits is None else Amounts(self.limits),
            window=budget.window if self.window is None else window_of(self.window),
            burst=self.burst if "burst" in given else budget.burst,
            match=budget.match if self.match is None else match_of(self.match),
            mode=self.mode or budget.mode,
            overdraft=self.overdraft or budget.overdraft,
            warn_at_permille=(
                budget.warn_at_permille if self.warn_at_permille is None else self.warn_at_permille
            ),
        )


class BudgetOut(Out):
    """A budget: how much of each unit may be used in one scope over one window."""

    id: BudgetId
    tenant: TenantId
    scope: ScopeKind
    subject: Subject
    limits: dict[Unit, int]
    window: WindowShape
    kind: BudgetKind
    burst: int | None
    match: Match
    mode: Mode
    overdraft: Overdraft
    warn_at_permille: tuple[int, ...]
    version: int


class BalanceFilters(Paging):
    """Whose balances are wanted; without any, everybody's."""

    tenant: TenantId | None = None
    agent: str | None = None
    session: Annotated[
        str | None, Field(description="its id (`ses_…`), or its agent and name: `agent/name`")
    ] = None
    scope: Annotated[ScopeKind | None, Field(description="only budgets of this scope")] = None
    budget: Annotated[BudgetId | None, Field(description="only this budget")] = None


class BalanceOut(Out):
    """How one unit of one budget stands for one subject in the present window."""

    budget_id: BudgetId
    tenant: TenantId
    scope: ScopeKind
    subject: str
    session_name: str | None = Field(
        description="`agent/name` of the session that the subject is; null for other scopes"
    )
    unit: Unit
    limit: int
    used: int
    reserved: int
    overrun: int
    remaining: int = Field(description="what may be used now; negative after an overrun")
    every_ms: int | None = Field(description="the time in which a rate's limit comes back")
    burst: int | None = Field(
        description="how much of a rate may come at once; `used` is what of it is not back yet"
    )
    window: WindowShape
    resets_at_ms: int | None
    is_quota: bool
    kind: BudgetKind
    mode: Mode


def budget_out(view: BudgetView) -> BudgetOut:
    """Return a budget as it is shown."""
    budget = view.budget
    return BudgetOut(
        id=budget.budget_id,
        tenant=budget.tenant,
        scope=budget.scope,
        subject=budget.subject,
        limits=limits_shape(budget.limits),
        window=window_shape(budget.window),
        kind=budget.kind,
        burst=budget.burst,
        match=match_words(budget.match),
        mode=budget.mode,
        overdraft=budget.overdraft,
        warn_at_permille=budget.warn_at_permille,
        version=view.version,
    )


def balance_out(
    view: BalanceView, tenant: TenantId, *, sessions: Mapping[SessionId, SessionKnown]
) -> BalanceOut:
    """Return a balance as it is shown; `sessions` are those that subjects may be."""
    known = sessions.get(SessionId(view.subject))
    return BalanceOut(
        budget_id=view.budget_id,
        tenant=tenant,
        scope=view.scope,
        subject=view.subject,
        session_name=None if known is None else f"{known.agent}/{known.name}",
        unit=view.unit,
        limit=view.limit,
        used=view.used,
        reserved=view.reserved,
        overrun=view.overrun,
        remaining=view.remaining,
        every_ms=view.every_ms,
        burst=view.burst,
        window=window_shape(view.window),
        resets_at_ms=view.resets_at_ms,
        is_quota=view.is_quota,
        kind=view.kind,
        mode=view.mode,
    )
