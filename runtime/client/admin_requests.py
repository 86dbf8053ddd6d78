"""The requests of administrators, one function each; both clients have a method of each."""

from collections.abc import Mapping
from typing import TypedDict, Unpack
from urllib.parse import quote

from runtime.client.admin_answers import (
    Approval,
    Budget,
    BudgetBalance,
    Call,
    SessionChanged,
    SessionKnown,
    SessionWithBill,
)
from runtime.client.exchange import AnswerT, Asked, Listing, answer, nothing, without_nothing

_BASE = "/admin/v1"


class BudgetTerms(TypedDict, total=False):
    """What can be said of a budget; see the admin API's `POST /budgets`."""

    id: str
    subject: str | None
    window: object
    kind: str
    burst: int
    match: Mapping[str, object]
    mode: str
    overdraft: str
    warn_at_permille: list[int]
    allow_unknown: bool


class BudgetChanges(BudgetTerms, total=False):
    """What can be changed of a budget; what is left out stays."""

    scope: str
    limits: Mapping[str, int]


class CallFilters(TypedDict, total=False):
    """Which calls are wanted."""

    tenant: str
    agent: str
    session: str
    status: str
    name: str


def budgets(*, tenant: str | None = None) -> Listing[Budget]:
    """Yield the budgets that govern calls."""
    return _listing("budgets", Budget, tenant=tenant)


def budget(budget_id: str) -> Asked[Budget]:
    """Return one budget."""
    return Asked(method="GET", path=_path("budgets", budget_id), reads=answer(Budget))


def make_budget(
    *, tenant: str, scope: str, limits: Mapping[str, int], **more: Unpack[BudgetTerms]
) -> Asked[Budget]:
    """Return the new budget; it governs the next call."""
    body = {"tenant": tenant, "scope": scope, "limits": dict(limits), **more}
    return Asked(method="POST", path=f"{_BASE}/budgets", body=body, reads=answer(Budget))


def change_budget(
    budget_id: str, *, version: int | None = None, **changes: Unpack[BudgetChanges]
) -> Asked[Budget]:
    """Return the budget after a change, refused where it no longer has that `version`."""
    body = {**changes, **without_nothing(version=version)}
    return Asked(method="PUT", path=_path("budgets", budget_id), body=body, reads=answer(Budget))


def retire_budget(budget_id: str) -> Asked[None]:
    """Let a budget govern no new call."""
    return Asked(method="DELETE", path=_path("budgets", budget_id), reads=nothing)


def balances(
    *,
    tenant: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    budget: str | None = None,
) -> Listing[BudgetBalance]:
    """Yield how budgets stand, everybody's or those of one tenant, agent or session."""
    return _listing(
        "balances", BudgetBalance, tenant=tenant, agent=agent, session=session, budget=budget
    )


def sessions(
    *, tenant: str | None = None, agent: str | None = None, is_open: bool | None = None
) -> Listing[SessionKnown]:
    """Yield sessions, the one opened last first."""
    return _listing("sessions", SessionKnown, tenant=tenant, agent=agent, open=is_open)


def session(session_id: str) -> Asked[SessionWithBill]:
    """Return a session with its bill."""
    return Asked(method="GET", path=_path("sessions", session_id), reads=answer(SessionWithBill))


def freeze(session_id: str) -> Asked[SessionChanged]:
    """Deny a session's calls until it is resumed; its local commands stand still."""
    return _done_to_session(session_id, "freeze")


def resume(session_id: str) -> Asked[SessionChanged]:
    """Let a session go on."""
    return _done_to_session(session_id, "resume")


def kill(session_id: str) -> Asked[SessionChanged]:
    """End a session and stop what it runs."""
    return _done_to_session(session_id, "kill")


def calls(**filters: Unpack[CallFilters]) -> Listing[Call]:
    """Yield calls that ended, the last one first."""
    return _listing("calls", Call, **filters)


def approvals(*, state: str | None = None) -> Listing[Approval]:
    """Yield questions to people, the latest first; `state="pending"` are the open ones."""
    return _listing("approvals", Approval, state=state)


def approve(approval_id: str, *, reason: str = "") -> Asked[Approval]:
    """Let a call run, once."""
    return _answered(approval_id, "approve", reason)


def reject(approval_id: str, *, reason: str = "") -> Asked[Approval]:
    """Refuse a call; the reason reaches the model."""
    return _answered(approval_id, "reject", reason)


def _done_to_session(session_id: str, verb: str) -> Asked[SessionChanged]:
    path = f"{_path('sessions', session_id)}/{verb}"
    return Asked(method="POST", path=path, reads=answer(SessionChanged))


def _answered(approval_id: str, verb: str, reason: str) -> Asked[Approval]:
    path = f"{_path('approvals', approval_id)}/{verb}"
    return Asked(method="POST", path=path, body={"reason": reason}, reads=answer(Approval))


def _listing(kind: str, item: type[AnswerT], **filters: str | bool | None) -> Listing[AnswerT]:
    """Return the request for a listing; what is None does not narrow it."""
    query = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in filters.items()
        if value is not None
    }
    return Listing(path=f"{_BASE}/{kind}", kind=item, query=query)


def _path(kind: str, name: str) -> str:
    return f"{_BASE}/{kind}/{quote(name, safe='')}"
