"""Whether the budgets of the file are those in force, and whether they bind anybody."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from governor.budget import Budget
from governor.ids import BudgetId, PrincipalId, SessionId, TenantId
from governor.scope import ScopeKind
from memory_store.glance import Found, Names
from runtime.token_files import ADMIN, AGENT, TENANT

_WORDS = {"budget_id": "id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetDoubt:
    """What an operator should know of a budget of the file."""

    budget: BudgetId
    told: str


def names_in(of_file: Sequence[Budget]) -> Names:
    """Return what has to be looked up before the budgets can be judged."""
    return Names(
        budgets=[budget.budget_id for budget in of_file],
        principals=[
            PrincipalId(budget.subject)
            for budget in of_file
            if budget.scope is ScopeKind.AGENT and budget.subject is not None
        ],
        sessions=[
            SessionId(budget.subject)
            for budget in of_file
            if budget.scope is ScopeKind.SESSION and budget.subject is not None
        ],
    )


def doubts_about(of_file: Sequence[Budget], found: Found | None) -> Iterator[BudgetDoubt]:
    """Yield what is doubtful; `found` is what the store holds, None before the first start."""
    principals: Mapping[PrincipalId, TenantId] = (
        {AGENT: TENANT, ADMIN: TENANT} if found is None else found.principals
    )
    for budget in of_file:
        view = None if found is None else found.budgets.get(budget.budget_id)
        if view is not None and view.retired_at_ms is not None:
            told = "was retired, and its id is not used again: give it another one, or remove it"
            yield BudgetDoubt(budget=budget.budget_id, told=told)
            continue
        if view is not None and (others := _differences(budget, view.budget)):
            yield BudgetDoubt(budget=budget.budget_id, told=_differs(budget, others))
        sessions = {} if found is None else found.sessions
        owners = {session: known.tenant for session, known in sessions.items()}
        unbound = _unbound(budget, principals, owners)
        if unbound is not None:
            yield BudgetDoubt(budget=budget.budget_id, told=f"it guards nothing yet: {unbound}")


def _differences(one: Budget, other: Budget) -> list[str]:
    names = [field.name for field in fields(Budget)]
    return [_WORDS.get(name, name) for name in names if getattr(one, name) != getattr(other, name)]


def _differs(budget: Budget, others: Sequence[str]) -> str:
    return (
        f"what the file says of its {', '.join(others)} is not in force: the file gives a "
        "budget its start, and the admin API owns it since. Change what "
        f"is in force with PUT /admin/v1/budgets/{budget.budget_id}, or the file to match"
    )


def _unbound(
    budget: Budget,
    principals: Mapping[PrincipalId, TenantId],
    sessions: Mapping[SessionId, TenantId],
) -> str | None:
    """Return why no call would ever be charged to the budget, None where one could."""
    subject = budget.subject
    if subject is None:
        return None
    if budget.scope is ScopeKind.AGENT and principals.get(PrincipalId(subject)) != budget.tenant:
        return (
            f"{subject!r} is no principal of this tenant. The subject of an agent's budget is the "
            "id of a principal, as GET /admin/v1/principals shows it; leave it out, and each "
            f"agent has the allowance to itself. `flyball token make {subject} --new-agent` makes "
            "an agent of that name"
        )
    if budget.scope is ScopeKind.SESSION and sessions.get(SessionId(subject)) != budget.tenant:
        return (
            f"{subject!r} is no session of this tenant. The subject of a session's budget is its "
            "id (ses_…), as `flyball sessions` shows it from its first call on; leave it out, and "
            "each session has the allowance to itself"
        )
    return None
