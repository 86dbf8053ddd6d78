"""What runs now and what the last hour brought, in one answer."""

from typing import Annotated

from fastapi import Query

from governor.forecast import HOUR_MS
from governor.ids import SessionId
from governor.scope import ScopeKind
from memory_store.glance import Names
from memory_store.lately import Whose
from runtime.admin.context import Parts
from runtime.admin.openapi import governed_routes, problems
from runtime.admin.shapes.lately import LatelyFilters, LatelyOut, lately_out

ROUTES = governed_routes("", tag="overview")

_FULLEST = 50
_OF_SESSIONS = frozenset({ScopeKind.SESSION, ScopeKind.SUB_SESSION})


@ROUTES.get("/overview", summary="Look at the last hour", responses=problems(404))
async def read_overview(parts: Parts, filters: Annotated[LatelyFilters, Query()]) -> LatelyOut:
    """Return how fast budgets are used, what was denied and why, what runs and what waits.

    Of tenants, the first hundred are looked at; ask for one of them by name.
    """
    if filters.tenant is not None:
        await parts.store.tenants.get(filters.tenant)
    if filters.agent is not None:
        await parts.store.principals.get(filters.agent)
    now_ms = parts.clock.now_ms()
    lately = await parts.store.lately(
        Whose(tenant=filters.tenant, agent=filters.agent),
        since_ms=now_ms - HOUR_MS,
        now_ms=now_ms,
        fullest=_FULLEST,
    )
    named = {SessionId(view.subject) for _, view in lately.views if view.scope in _OF_SESSIONS}
    known = (await parts.store.glance(Names(sessions=named))).sessions if named else {}
    return lately_out(lately, now_ms=now_ms, sessions=known)
