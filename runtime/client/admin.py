"""An administrator at a sidecar: budgets, balances, sessions, calls and approvals."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TypedDict, Unpack

import httpx

from runtime.client import admin_requests as requests
from runtime.client.admin_answers import (
    Approval,
    Budget,
    BudgetBalance,
    Call,
    SessionChanged,
    SessionKnown,
    SessionWithBill,
)
from runtime.client.exchange import answer_of, document_of
from runtime.client.link import SECONDS_MAX, AsyncClosing, AsyncLink, Closing, Link


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


class AdminClient(Closing):
    """An administrator at a sidecar, for programs that wait.

    Every method raises `RefusedError` with the status of HTTP where it is refused, and
    `NotReachedError` where nobody answers.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str,
        timeout_s: float = SECONDS_MAX,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Take the administrators' listener and an administrator's token."""
        self._link = Link(base_url, token=token, timeout_s=timeout_s, transport=transport)

    def budgets(self, *, tenant: str | None = None) -> Iterator[Budget]:
        """Yield the budgets that govern calls."""
        asked = requests.listed("budgets", tenant=tenant)
        yield from map(Budget.model_validate, self._link.items(asked))

    def budget(self, budget_id: str) -> Budget:
        """Return one budget."""
        return answer_of(self._link.sent(requests.read("budgets", budget_id)), Budget)

    def make_budget(
        self, *, tenant: str, scope: str, limits: Mapping[str, int], **more: Unpack[BudgetTerms]
    ) -> Budget:
        """Return the new budget; it governs the next call."""
        body = {"tenant": tenant, "scope": scope, "limits": dict(limits), **more}
        return answer_of(self._link.sent(requests.make("budgets", body)), Budget)

    def change_budget(
        self, budget_id: str, *, version: int | None = None, **changes: Unpack[BudgetChanges]
    ) -> Budget:
        """Return the budget after a change, refused where it no longer has that `version`."""
        asked = requests.change("budgets", budget_id, {**changes}, version=version)
        return answer_of(self._link.sent(asked), Budget)

    def retire_budget(self, budget_id: str) -> None:
        """Let a budget govern no new call."""
        document_of(self._link.sent(requests.retire("budgets", budget_id)))

    def balances(
        self,
        *,
        tenant: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        budget: str | None = None,
    ) -> Iterator[BudgetBalance]:
        """Yield how budgets stand, everybody's or those of one tenant, agent or session."""
        asked = requests.listed(
            "balances", tenant=tenant, agent=agent, session=session, budget=budget
        )
        yield from map(BudgetBalance.model_validate, self._link.items(asked))

    def sessions(
        self, *, tenant: str | None = None, agent: str | None = None, is_open: bool | None = None
    ) -> Iterator[SessionKnown]:
        """Yield sessions, the one opened last first."""
        asked = requests.listed("sessions", tenant=tenant, agent=agent, open=is_open)
        yield from map(SessionKnown.model_validate, self._link.items(asked))

    def session(self, session_id: str) -> SessionWithBill:
        """Return a session with its bill."""
        return answer_of(self._link.sent(requests.read("sessions", session_id)), SessionWithBill)

    def freeze(self, session_id: str) -> SessionChanged:
        """Deny a session's calls until it is resumed; its local commands stand still."""
        return self._act("sessions", session_id, "freeze")

    def resume(self, session_id: str) -> SessionChanged:
        """Let a session go on."""
        return self._act("sessions", session_id, "resume")

    def kill(self, session_id: str) -> SessionChanged:
        """End a session and stop what it runs."""
        return self._act("sessions", session_id, "kill")

    def calls(self, **filters: Unpack[CallFilters]) -> Iterator[Call]:
        """Yield calls that ended, the last one first."""
        asked = requests.listed("calls", **filters)
        yield from map(Call.model_validate, self._link.items(asked))

    def approvals(self, *, state: str | None = None) -> Iterator[Approval]:
        """Yield questions to people, the latest first; `state="pending"` are the open ones."""
        asked = requests.listed("approvals", state=state)
        yield from map(Approval.model_validate, self._link.items(asked))

    def approve(self, approval_id: str, *, reason: str = "") -> Approval:
        """Let a call run, once."""
        asked = requests.act("approvals", approval_id, "approve", {"reason": reason})
        return answer_of(self._link.sent(asked), Approval)

    def reject(self, approval_id: str, *, reason: str = "") -> Approval:
        """Refuse a call; the reason reaches the model."""
        asked = requests.act("approvals", approval_id, "reject", {"reason": reason})
        return answer_of(self._link.sent(asked), Approval)

    def _act(self, kind: str, name: str, verb: str) -> SessionChanged:
        return answer_of(self._link.sent(requests.act(kind, name, verb)), SessionChanged)


class AsyncAdminClient(AsyncClosing):
    """An administrator at a sidecar, for programs with a loop; as of `AdminClient`."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str,
        timeout_s: float = SECONDS_MAX,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Take the administrators' listener and an administrator's token."""
        self._link = AsyncLink(base_url, token=token, timeout_s=timeout_s, transport=transport)

    async def budgets(self, *, tenant: str | None = None) -> AsyncIterator[Budget]:
        """Yield the budgets that govern calls."""
        asked = requests.listed("budgets", tenant=tenant)
        async for item in self._link.items(asked):
            yield Budget.model_validate(item)

    async def budget(self, budget_id: str) -> Budget:
        """Return one budget."""
        return answer_of(await self._link.sent(requests.read("budgets", budget_id)), Budget)

    async def make_budget(
        self, *, tenant: str, scope: str, limits: Mapping[str, int], **more: Unpack[BudgetTerms]
    ) -> Budget:
        """Return the new budget; it governs the next call."""
        body = {"tenant": tenant, "scope": scope, "limits": dict(limits), **more}
        return answer_of(await self._link.sent(requests.make("budgets", body)), Budget)

    async def change_budget(
        self, budget_id: str, *, version: int | None = None, **changes: Unpack[BudgetChanges]
    ) -> Budget:
        """Return the budget after a change, refused where it no longer has that `version`."""
        asked = requests.change("budgets", budget_id, {**changes}, version=version)
        return answer_of(await self._link.sent(asked), Budget)

    async def retire_budget(self, budget_id: str) -> None:
        """Let a budget govern no new call."""
        document_of(await self._link.sent(requests.retire("budgets", budget_id)))

    async def balances(
        self,
        *,
        tenant: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        budget: str | None = None,
    ) -> AsyncIterator[BudgetBalance]:
        """Yield how budgets stand, everybody's or those of one tenant, agent or session."""
        asked = requests.listed(
            "balances", tenant=tenant, agent=agent, session=session, budget=budget
        )
        async for item in self._link.items(asked):
            yield BudgetBalance.model_validate(item)

    async def sessions(
        self, *, tenant: str | None = None, agent: str | None = None, is_open: bool | None = None
    ) -> AsyncIterator[SessionKnown]:
        """Yield sessions, the one opened last first."""
        asked = requests.listed("sessions", tenant=tenant, agent=agent, open=is_open)
        async for item in self._link.items(asked):
            yield SessionKnown.model_validate(item)

    async def session(self, session_id: str) -> SessionWithBill:
        """Return a session with its bill."""
        return answer_of(
            await self._link.sent(requests.read("sessions", session_id)), SessionWithBill
        )

    async def freeze(self, session_id: str) -> SessionChanged:
        """Deny a session's calls until it is resumed; its local commands stand still."""
        return await self._act("sessions", session_id, "freeze")

    async def resume(self, session_id: str) -> SessionChanged:
        """Let a session go on."""
        return await self._act("sessions", session_id, "resume")

    async def kill(self, session_id: str) -> SessionChanged:
        """End a session and stop what it runs."""
        return await self._act("sessions", session_id, "kill")

    async def calls(self, **filters: Unpack[CallFilters]) -> AsyncIterator[Call]:
        """Yield calls that ended, the last one first."""
        asked = requests.listed("calls", **filters)
        async for item in self._link.items(asked):
            yield Call.model_validate(item)

    async def approvals(self, *, state: str | None = None) -> AsyncIterator[Approval]:
        """Yield questions to people, the latest first; `state="pending"` are the open ones."""
        asked = requests.listed("approvals", state=state)
        async for item in self._link.items(asked):
            yield Approval.model_validate(item)

    async def approve(self, approval_id: str, *, reason: str = "") -> Approval:
        """Let a call run, once."""
        asked = requests.act("approvals", approval_id, "approve", {"reason": reason})
        return answer_of(await self._link.sent(asked), Approval)

    async def reject(self, approval_id: str, *, reason: str = "") -> Approval:
        """Refuse a call; the reason reaches the model."""
        asked = requests.act("approvals", approval_id, "reject", {"reason": reason})
        return answer_of(await self._link.sent(asked), Approval)

    async def _act(self, kind: str, name: str, verb: str) -> SessionChanged:
        return answer_of(await self._link.sent(requests.act(kind, name, verb)), SessionChanged)
