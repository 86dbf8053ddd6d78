"""The experience memory as a whole: carried out, taken in, looked through."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import StreamingResponse

from governor.experience.kinds import TrustLane
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.memory_tenant import tenant_of
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.shapes.memory import OfTenant
from runtime.admin.shapes.memory_upkeep import (
    ExportFilters,
    LookedOut,
    TakenFor,
    TakenOut,
    looked_out,
    taken_out,
)
from runtime.memory.administration.carrying import taken_from

# Every one names a tenant, which may not be there.
ROUTES = governed_routes("/memory", tag="memory", responses=problems(404))
LINES = "application/x-ndjson"


@ROUTES.get("/export", summary="Export experiences", response_class=StreamingResponse)
async def export(
    parts: Parts, by: By, asked: Annotated[ExportFilters, Query()]
) -> StreamingResponse:
    """Return every experience of a tenant with its content, one line of JSON each."""
    tenant = await tenant_of(parts, asked)
    namespaces = await parts.memory.places.ids_of(asked.namespace, tenant=tenant)
    await parts.store.audit.note(
        by=by,
        now_ms=parts.clock.now_ms(),
        action="memory.exported",
        target=tenant,
        before={},
        after={"namespaces": list(namespaces)},
    )

    async def lines() -> AsyncIterator[bytes]:
        async for line in parts.store.upkeep.transfer.lines(tenant, namespaces=namespaces):
            yield line if line.endswith(b"\n") else line + b"\n"

    return StreamingResponse(lines(), media_type=LINES)


@ROUTES.post("/import", summary="Import experiences", responses=WITH_BODY)
async def take_in(
    parts: Parts, by: By, request: Request, of: Annotated[TakenFor, Query()]
) -> TakenOut:
    """Take lines of an export; those that cannot be taken are told of, the others are kept.

    What this house signed gets back its lane, anything else is taken for a stranger's. With
    `as_lane` whoever asks vouches for the file: its lines stand where they say, at best in that
    lane, which instructs nobody.
    """
    now_ms, tenant = parts.clock.now_ms(), await tenant_of(parts, of)
    taken = await taken_from(
        parts.store.upkeep.transfer,
        await request.body(),
        tenant=tenant,
        now_ms=now_ms,
        vouched=None if of.as_lane is None else TrustLane(of.as_lane),
    )
    told = taken_out(taken)
    await parts.store.audit.note(
        by=by,
        now_ms=now_ms,
        action="memory.imported",
        target=tenant,
        before={},
        after={**told.model_dump(mode="json", exclude={"faults"}), "as_lane": of.as_lane},
    )
    return told


@ROUTES.get("/check", summary="Look through the memory")
async def check(parts: Parts, of: Annotated[OfTenant, Query()]) -> LookedOut:
    """Return what does not add up: in the log, the rows, the contents, the sums."""
    return looked_out(await parts.store.upkeep.check.look(await tenant_of(parts, of)))


@ROUTES.post("/rebuild", summary="Make the indexes anew")
async def rebuild(parts: Parts, by: By, of: Annotated[OfTenant, Query()]) -> LookedOut:
    """Make what experiences are found by anew, out of what is kept; return what is wrong still."""
    tenant = await tenant_of(parts, of)
    await parts.store.upkeep.check.mend(tenant)
    await parts.store.experience_search.rebuild()
    await parts.store.audit.note(
        by=by,
        now_ms=parts.clock.now_ms(),
        action="memory.rebuilt",
        target=tenant,
        before={},
        after={},
    )
    return looked_out(await parts.store.upkeep.check.look(tenant))
