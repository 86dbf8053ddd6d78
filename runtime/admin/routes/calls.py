"""Call records."""

from typing import Annotated

from fastapi import Query

from governor.ids import CallId
from memory_store.errors import ArchiveNotFoundError
from runtime.admin.context import Parts
from runtime.admin.openapi import governed_routes, problems
from runtime.admin.shapes.calls import (
    ArchivedOut,
    ArchivedPart,
    CallFilters,
    CallOut,
    CurveOut,
    archived_out,
    call_out,
    curve_out,
)
from runtime.admin.shapes.fields import Page, page_of

ROUTES = governed_routes("/calls", tag="calls")


@ROUTES.get("", summary="List calls")
async def list_calls(parts: Parts, filters: Annotated[CallFilters, Query()]) -> Page[CallOut]:
    """Return calls that ended, the last one first."""
    found = await parts.store.calls.page(
        tenant=filters.tenant,
        session=filters.session,
        agent=filters.agent,
        status=filters.status,
        denial=filters.denial,
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


@ROUTES.get(
    "/{call_id}/curve",
    summary="Read how a call's memory and processor time went",
    responses=problems(404),
)
async def read_curve(parts: Parts, call_id: CallId) -> CurveOut:
    """Return the points that were sampled of the call's command while it ran."""
    return curve_out(await parts.store.calls.curve(call_id))


@ROUTES.get(
    "/{call_id}/archive", summary="Read the archived result of a call", responses=problems(404)
)
async def read_archive(
    parts: Parts, call_id: CallId, wanted: Annotated[ArchivedPart, Query()]
) -> ArchivedOut:
    """Return a part of the result that was too long for its reader, from `offset` on."""
    record = (await parts.store.calls.get(call_id)).record
    if record.archive_id is None:
        message = f"no result of the call {call_id} was archived"
        raise ArchiveNotFoundError(message)
    found = await parts.store.archive.read(
        record.archive_id,
        tenant=record.chain.tenant,
        agent=record.chain.agent,
        offset=wanted.offset,
        length=wanted.length,
    )
    return archived_out(record.archive_id, found)
