"""Balances: how far budgets are used."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from governor.ids import PrincipalId, SessionId, TenantId
from governor.scope import ScopeKind
from memory_store.accounts import BalanceView
from memory_store.errors import NotFoundError
from memory_store.glance import Names, SessionKnown
from memory_store.paging import PAGE_LIMIT_MAX
from memory_store.sessions import SessionView, session_id_for
from memory_store.standing import BALANCES_MAX
from runtime.admin.context import Parts
from runtime.admin.openapi import problems
from runtime.admin.shapes.budgets import BalanceFilters, BalanceOut, balance_out
from runtime.admin.shapes.fields import CutPage

ROUTES = APIRouter(prefix="/balances", tags=["balances"])


@ROUTES.get("", summary="List balances", responses=problems(404))
async def list_balances(
    parts: Parts, filters: Annotated[BalanceFilters, Query()]
) -> CutPage[BalanceOut]:
    """Return how the live budgets stand.

    A budget that each agent or session has for itself is shown for the one that is asked
    for, else for those who have used it in the present window. At most 1000 are shown;
    where that may not be all of them, `truncated` is true.
    """
    chain = await _chain(parts, filters)
    if chain is None:
        return CutPage(items=[], next=None, truncated=False)
    tenant, agent, session = chain
    tenants, is_cut = ((tenant,), False) if tenant is not None else await _tenants(parts)
    items: list[BalanceOut] = []
    for each in tenants:
        views = await parts.store.ledger.balances(
            tenant=each, agent=agent, session=session, now_ms=parts.clock.now_ms()
        )
        sessions = await _sessions(parts, views)
        items += [balance_out(view, each, sessions=sessions) for view in views]
        if len(items) >= BALANCES_MAX:
            is_cut = True
            break
    return CutPage(items=items[:BALANCES_MAX], next=None, truncated=is_cut)


async def _chain(
    parts: Parts, filters: BalanceFilters
) -> tuple[TenantId | None, PrincipalId | None, SessionId | None] | None:
    """Return the scopes that are asked for, None where they do not belong together.

    A session implies its agent, an agent its tenant.

    Raises:
        NotFoundError: there is no such session, agent or tenant.
    """
    if filters.tenant is not None:
        await parts.store.tenants.get(filters.tenant)
    if filters.session is not None:
        session = await _session(parts, filters.session)
        is_theirs = filters.agent in (None, session.agent)
        is_whole = is_theirs and filters.tenant in (None, session.tenant)
        return (session.tenant, session.agent, session.session_id) if is_whole else None
    if filters.agent is not None:
        agent = await parts.store.principals.get(PrincipalId(filters.agent))
        is_whole = filters.tenant in (None, agent.tenant)
        return (agent.tenant, agent.principal_id, None) if is_whole else None
    return filters.tenant, None, None


async def _session(parts: Parts, named: str) -> SessionView:
    """Return the session of an id, or of an agent and what the agent calls it.

    Raises:
        NotFoundError: there is none.
    """
    agent, slash, name = named.partition("/")
    wanted = session_id_for(PrincipalId(agent), name) if slash else SessionId(named)
    try:
        return await parts.store.sessions.get(wanted)
    except NotFoundError:
        message = f"there is no session {named}: name its id (ses_…), or agent/name"
        raise NotFoundError(message) from None


async def _sessions(parts: Parts, views: Sequence[BalanceView]) -> Mapping[SessionId, SessionKnown]:
    """Return the sessions that are subjects of balances, as agents call them."""
    kinds = {ScopeKind.SESSION, ScopeKind.SUB_SESSION}
    wanted = {SessionId(view.subject) for view in views if view.scope in kinds}
    return (await parts.store.glance(Names(sessions=wanted))).sessions if wanted else {}


async def _tenants(parts: Parts) -> tuple[tuple[TenantId, ...], bool]:
    """Return the first tenants, as many as could fill an answer, and whether more follow."""
    tenants: list[TenantId] = []
    cursor = None
    while len(tenants) < BALANCES_MAX:
        found = await parts.store.tenants.page(cursor=cursor, limit=PAGE_LIMIT_MAX)
        tenants += [tenant.tenant_id for tenant in found.items]
        cursor = found.next
        if cursor is None:
            break
    return tuple(tenants), cursor is not None
