"""Balances: how far budgets are used."""

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, NamedTuple, Self

from fastapi import Query

from governor.ids import PrincipalId, SessionId, TenantId
from governor.scope import ScopeKind
from memory_store.accounts import BalanceView
from memory_store.errors import NotFoundError
from memory_store.glance import Names, SessionKnown
from memory_store.paging import PAGE_LIMIT_MAX, cursor_of, key_of
from memory_store.sessions import SessionView, session_id_for
from memory_store.standing import RANKS, Part, Place
from runtime.admin.context import Parts
from runtime.admin.openapi import governed_routes, problems
from runtime.admin.shapes.budgets import BalanceFilters, BalanceOut, balance_out
from runtime.admin.shapes.fields import Page

ROUTES = governed_routes("/balances", tag="balances")


# So many tenants without a budget are looked at for one page.
_TENANTS_MAX = 1_000
# After every budget of a tenant.
_END = "\U0010ffff"


class _Place(NamedTuple):
    """How far a listing came, as its cursor says it."""

    rank: int
    tenant: str
    budget_id: str
    subject: str
    shown: int

    @classmethod
    def of_cursor(cls, cursor: str) -> Self:
        """Return the place that a page ended at.

        Raises:
            InvalidCursorError: the cursor is not one of ours.
        """
        rank, tenant, budget_id, subject, shown = key_of(cursor, kinds=(int, str, str, str, int))
        return cls(int(rank), str(tenant), str(budget_id), str(subject), max(0, int(shown)))

    @classmethod
    def behind(cls, scope: ScopeKind | None, tenant: TenantId) -> Self:
        """Return the place after all of a tenant's budgets of a scope."""
        return cls(len(RANKS) if scope is None else RANKS[scope], tenant, _END, "", 0)

    @classmethod
    def of_last(cls, shown: Sequence[tuple[TenantId, BalanceView]], after: Self | None) -> Self:
        """Return the place of the last that is shown, on a page that began at `after`."""
        places = [_whose(tenant, view) for tenant, view in reversed(shown)]
        count = len(list(takewhile(lambda place: place == places[0], places)))
        if count == len(places) and after is not None and places[0] == after[:-1]:
            count += after.shown
        return cls(*places[0], count)

    def within(self, scope: ScopeKind | None, tenant: TenantId) -> Place | None:
        """Return the place among a tenant's budgets; None where all of them follow."""
        if self.tenant != tenant or (scope is not None and RANKS[scope] != self.rank):
            return None
        return Place(
            rank=self.rank, budget_id=self.budget_id, subject=self.subject, shown=self.shown
        )


def _whose(tenant: TenantId, view: BalanceView) -> tuple[int, str, str, str]:
    if view.scope is ScopeKind.SUB_SESSION:
        return RANKS[view.scope], tenant, "", ""
    return RANKS[view.scope], tenant, view.budget_id, view.subject


@ROUTES.get("", summary="List balances", responses=problems(404))
async def list_balances(
    parts: Parts, filters: Annotated[BalanceFilters, Query()]
) -> Page[BalanceOut]:
    """Return how the live budgets stand, those of tenants first, then of agents and sessions.

    A budget that each agent or session has for itself is shown for the one that is asked
    for, else for those who have used it in the present window.
    """
    after = None if filters.cursor is None else _Place.of_cursor(filters.cursor)
    chain = await _chain(parts, filters)
    if chain is None:
        return Page(items=[], next=None)
    wanted, agent, session = chain
    found: list[tuple[TenantId, BalanceView]] = []
    seen, last = 0, after
    async for scope, tenant in _asked(parts, filters.scope, wanted, after):
        views = await parts.store.ledger.balances(
            tenant=tenant,
            agent=agent,
            session=session,
            now_ms=parts.clock.now_ms(),
            part=Part(
                scope=scope,
                budget_id=filters.budget,
                after=None if after is None else after.within(scope, tenant),
                # One more than is shown, to see whether more follow.
                limit=filters.limit + 1 - len(found),
            ),
        )
        found += [(tenant, view) for view in views]
        seen, last = seen + 1, _Place.behind(scope, tenant)
        if len(found) > filters.limit or seen == _TENANTS_MAX:
            break
    else:
        last = None
    shown = found[: filters.limit]
    if len(found) > len(shown):
        last = _Place.of_last(shown, after)
    sessions = await _sessions(parts, [view for _, view in shown])
    return Page(
        items=[balance_out(view, tenant, sessions=sessions) for tenant, view in shown],
        next=None if last is None else cursor_of(last),
    )


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
        message = (
            f"agent {agent} has no session {name} yet: one is there from its first call on"
            if slash
            else f"there is no session {named}: name its id (ses_…), or agent/name"
        )
        raise NotFoundError(message) from None


async def _sessions(parts: Parts, views: Sequence[BalanceView]) -> Mapping[SessionId, SessionKnown]:
    """Return the sessions that are subjects of balances, as agents call them."""
    kinds = {ScopeKind.SESSION, ScopeKind.SUB_SESSION}
    wanted = {SessionId(view.subject) for view in views if view.scope in kinds}
    return (await parts.store.glance(Names(sessions=wanted))).sessions if wanted else {}


async def _asked(
    parts: Parts, scope: ScopeKind | None, tenant: TenantId | None, after: _Place | None
) -> AsyncIterator[tuple[ScopeKind | None, TenantId]]:
    """Yield what is listed one after the other; None: every scope of a tenant at once."""
    if tenant is not None:
        yield scope, tenant
        return
    for each in (scope,) if scope is not None else ScopeKind:
        if after is not None and RANKS[each] < after.rank:
            continue
        cursor = None
        if after is not None and RANKS[each] == after.rank:
            if after.budget_id != _END:
                yield each, TenantId(after.tenant)
            cursor = cursor_of((after.tenant,))
        while True:
            page = await parts.store.tenants.page(cursor=cursor, limit=PAGE_LIMIT_MAX)
            for known in page.items:
                yield each, known.tenant_id
            cursor = page.next
            if cursor is None:
                break
