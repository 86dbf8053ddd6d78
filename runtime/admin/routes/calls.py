"""Call records."""

from typing import Annotated

from fastapi import APIRouter, Query

from governor.ids import CallId
from runtime.admin.context import Parts
from runtime.admin.openapi import problems
from runtime.admin.shapes.calls import CallFilters, CallOut, call_out
from runtime.admin.shapes.fields import Page, page_of

ROUTES = APIRouter(prefix="/calls", tags=["calls"])


@ROUTES.get("", summary="List calls")
async def list_calls(parts: Parts, filters: Annotated[CallFilters, Query()]) -> Page[CallOut]:
    """Return calls that ended, the last one first."""
    found = await parts.store.calls.page(
        tenant=filters.tenant,
        session=filters.session,
        agent=filters.agent,
        status=filters.status,
        name=filters.name,
        kind=filters.kind,
        since_ms=filters.since_ms,
        until_ms=filters.until_ms,
        cursor=filters.cursor,
        limit=filters.limit,
    )
    prices = parts.policy().unified
    return page_of(found, lambda view: call_out(view, prices))


@ROUTES.get("/{call_id}", summary="Read a call", responses=problems(404))
async def read_call(parts: Parts, call_id: CallId) -> CallOut:
    """Return the call; there is no record of one that still runs."""
    return call_out(await parts.store.calls.get(call_id), parts.policy().unified)
