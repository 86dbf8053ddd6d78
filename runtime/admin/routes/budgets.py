"""Budgets."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Response
from starlette.responses import StreamingResponse

from governor.budget import Budget
from governor.ids import BudgetId, PrincipalId, SessionId, TenantId
from governor.scope import ScopeKind
from memory_store.budgets import BudgetView
from memory_store.errors import AboveQuotaError, NotFoundError, StoreError
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.shapes.budgets import (
    BudgetChange,
    BudgetFilters,
    BudgetNew,
    BudgetOut,
    budget_out,
)
from runtime.admin.shapes.fields import Page
from runtime.admin.shapes.previews import (
    LINES,
    PreviewIn,
    PreviewOut,
    line_of,
    preview_out,
    problem_line,
)
from runtime.admin.unchangeable import refuse_other
from runtime.admin.versions import IfMatch, changed, check_if_match, tag
from runtime.errors import RuntimeFaultError
from runtime.failures import Fault, ProblemError, invalid, problem_for

ROUTES = governed_routes("/budgets", tag="budgets")

# How many pages of the store one page of a filtered listing may take.
_READS_MAX = 10


@ROUTES.get("", summary="List budgets")
async def list_budgets(parts: Parts, filters: Annotated[BudgetFilters, Query()]) -> Page[BudgetOut]:
    """Return budgets by id, without quotas; a page may be short although more follow."""
    items: list[BudgetOut] = []
    cursor = filters.cursor
    for _ in range(_READS_MAX):
        # What is asked for at a time always fits, so that the cursor stays the store's own.
        found = await parts.store.budgets.page(
            tenant=filters.tenant, cursor=cursor, limit=filters.limit - len(items)
        )
        items += [budget_out(view) for view in found.items if _is_wanted(view, filters.scope)]
        cursor = found.next
        if cursor is None or len(items) == filters.limit:
            break
    return Page(items=items, next=cursor)


@ROUTES.post(
    "",
    summary="Make a budget",
    status_code=HTTPStatus.CREATED,
    responses=WITH_BODY | problems(404, 409),
)
async def create_budget(parts: Parts, by: By, new: BudgetNew, response: Response) -> BudgetOut:
    """Return the new budget; it governs the next call."""
    budget = new.budget(BudgetId(new.id or parts.clock.fresh("bud")))
    _check_match(parts, budget, allow_unknown=new.allow_unknown)
    await _check_subject(parts, budget)
    with _quota_named(budget.budget_id):
        view = await parts.store.budgets.create(budget, by=by, now_ms=parts.clock.now_ms())
    response.headers["Location"] = f"/admin/v1/budgets/{budget.budget_id}"
    tag(response, view)
    return budget_out(view)


@ROUTES.post(
    "/preview",
    summary="See what a budget would have denied",
    responses=WITH_BODY | problems(404),
)
async def preview_budget(parts: Parts, asked: PreviewIn) -> PreviewOut:
    """Replay the calls of the last days against a budget, new or changed; nothing is stored."""
    before, after = await _previewed(parts, asked)
    await parts.store.tenants.get(after.tenant)
    found = await parts.previews.of(
        parts.store.past_calls,
        after,
        before=before,
        days=asked.days,
        now_ms=parts.clock.now_ms(),
    )
    return preview_out(found, after)


@ROUTES.post(
    "/preview/whole",
    summary="See what a budget would have denied of every call",
    response_class=StreamingResponse,
    responses=WITH_BODY | problems(404),
)
async def preview_whole(parts: Parts, asked: PreviewIn) -> StreamingResponse:
    """Replay every call of the last days, and say meanwhile how far it is, in lines of JSON.

    Each line is an object: `{"progress": {"calls", "permille"}}`, at last `{"preview"}`, as
    the other preview returns it, or `{"problem"}`. It ends when nobody reads it any more.
    """
    before, after = await _previewed(parts, asked)
    await parts.store.tenants.get(after.tenant)
    found = parts.long_previews.of(
        parts.store.past_calls,
        after,
        before=before,
        days=asked.days,
        now_ms=parts.clock.now_ms(),
    )
    first = await anext(found)  # what forbids to begin is a problem like any other

    async def lines() -> AsyncIterator[bytes]:
        yield line_of(first, after)
        try:
            async for one in found:
                yield line_of(one, after)
        except (StoreError, RuntimeFaultError) as error:
            yield problem_line(problem_for(error).document())

    return StreamingResponse(lines(), media_type=LINES)


@ROUTES.get("/{budget_id}", summary="Read a budget", responses=problems(404))
async def read_budget(parts: Parts, budget_id: BudgetId, response: Response) -> BudgetOut:
    """Return the budget."""
    view = await _budget(parts, budget_id)
    tag(response, view)
    return budget_out(view)


@ROUTES.put(
    "/{budget_id}", summary="Change a budget", responses=WITH_BODY | problems(404, 409, 412)
)
async def change_budget(
    *,
    parts: Parts,
    by: By,
    budget_id: BudgetId,
    change: BudgetChange,
    response: Response,
    if_match: IfMatch = None,
) -> BudgetOut:
    """Return the budget after the change; its version stays where nothing changes.

    A limit below what is used and held is accepted, and denies new calls.
    """
    refuse_other("id", change.id, budget_id)

    async def read() -> BudgetView:
        return await _budget(parts, budget_id)

    async def write(before: BudgetView) -> BudgetView:
        refuse_other("tenant", change.tenant, before.budget.tenant)
        refuse_other("kind", change.kind, before.budget.kind)
        after = change.applied_to(before.budget)
        if after == before.budget:
            return before
        if after.match != before.budget.match:
            _check_match(parts, after, allow_unknown=change.allow_unknown)
        if (after.scope, after.subject) != (before.budget.scope, before.budget.subject):
            await _check_subject(parts, after)
        return await parts.store.budgets.put(
            after,
            expected_version=before.version,
            by=by,
            now_ms=parts.clock.now_ms(),
        )

    with _quota_named(budget_id):
        view = await changed(read=read, write=write, if_match=if_match, version_sent=change.version)
    tag(response, view)
    return budget_out(view)


@ROUTES.delete(
    "/{budget_id}",
    summary="Retire a budget",
    status_code=HTTPStatus.NO_CONTENT,
    responses=problems(404, 412),
)
async def retire_budget(
    parts: Parts, by: By, budget_id: BudgetId, if_match: IfMatch = None
) -> None:
    """Retire the budget: it governs no new call, and its id is not used again."""
    before = await _budget(parts, budget_id)
    check_if_match(if_match, before)
    await parts.store.budgets.delete(
        budget_id,
        expected_version=None if if_match is None else before.version,
        by=by,
        now_ms=parts.clock.now_ms(),
    )


async def _previewed(parts: Parts, asked: PreviewIn) -> tuple[Budget | None, Budget]:
    """Return the budget to replay, and the one before its change if there is a change."""
    if asked.new is not None:
        made = asked.new.budget(BudgetId(asked.new.id or "preview"))
        _check_match(parts, made, allow_unknown=asked.new.allow_unknown)
        await _check_subject(parts, made)
        return None, made
    assert asked.id is not None, "checked by the shape"
    standing = (await _budget(parts, asked.id)).budget
    change = asked.change
    if change is None:
        return None, standing
    refuse_other("tenant", change.tenant, standing.tenant)
    refuse_other("kind", change.kind, standing.kind)
    after = change.applied_to(standing)
    if after.match != standing.match:
        _check_match(parts, after, allow_unknown=change.allow_unknown)
    if (after.scope, after.subject) != (standing.scope, standing.subject):
        await _check_subject(parts, after)
    return standing, after


async def _budget(parts: Parts, budget_id: BudgetId) -> BudgetView:
    """Return the budget; a quota has a place of its own and is none."""
    view = await parts.store.budgets.get(budget_id)
    if view.budget.is_quota:
        message = f"there is no budget {budget_id}"
        raise NotFoundError(message)
    return view


def _check_match(parts: Parts, budget: Budget, *, allow_unknown: bool) -> None:
    """Return if `budget` could be for some call.

    Raises:
        ProblemError: it names what is not configured: the budget would never bind.
    """
    faults = [
        Fault(field=f"match.{name}", detail=f"{why}; send allow_unknown if one will be")
        for name, why in parts.known().unknown(budget.match)
    ]
    if faults and not allow_unknown:
        raise ProblemError(invalid(*faults))


async def _check_subject(parts: Parts, budget: Budget) -> None:
    """Return if the subject of `budget` exists in its tenant, or if it names none.

    Raises:
        NotFoundError: there is no such tenant.
        ProblemError: there is no such subject: the budget would never bind.
    """
    if budget.subject is None:
        return
    await parts.store.tenants.get(budget.tenant)
    match budget.scope:
        case ScopeKind.TENANT | ScopeKind.SUB_SESSION:
            return  # checked by the budget itself
        case ScopeKind.AGENT:
            tenant = await _tenant_of_agent(parts, PrincipalId(budget.subject))
            must = (
                "is no principal of this tenant. The subject of an agent's budget is the id of a "
                "principal, as GET /principals shows it; leave it out, and each agent has the "
                "allowance to itself"
            )
        case ScopeKind.SESSION:
            tenant = await _tenant_of_session(parts, SessionId(budget.subject))
            must = (
                "is no session of this tenant. The subject of a session's budget is its id "
                "(ses_…), as GET /sessions shows it from its first call on, not what the agent "
                "calls it. To budget sessions before they exist, leave subject out: each session "
                "then has the allowance to itself"
            )
    if tenant != budget.tenant:
        fault = Fault(field="subject", detail=f"{budget.subject} {must}")
        raise ProblemError(invalid(fault))


async def _tenant_of_agent(parts: Parts, agent: PrincipalId) -> TenantId | None:
    try:
        return (await parts.store.principals.get(agent)).tenant
    except NotFoundError:
        return None


async def _tenant_of_session(parts: Parts, session: SessionId) -> TenantId | None:
    try:
        return (await parts.store.sessions.get(session)).tenant
    except NotFoundError:
        return None


def _is_wanted(view: BudgetView, scope: ScopeKind | None) -> bool:
    return not view.budget.is_quota and scope in (None, view.budget.scope)


@contextmanager
def _quota_named(budget_id: BudgetId) -> Iterator[None]:
    """Say which budget and which of its fields went above the quota."""
    try:
        yield
    except AboveQuotaError as error:
        problem = problem_for(error)
        fault = Fault(field=f"limits.{error.unit}", detail=f"{error.limit} is above {error.quota}")
        raise ProblemError(
            replace(
                problem,
                detail=f"budget {budget_id}: {problem.detail}",
                faults=(fault,),
                members={**problem.members, "budget_id": budget_id},
            )
        ) from error
