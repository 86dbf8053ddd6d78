"""What calls brought for what they cost."""

from functools import partial
from typing import Annotated

from fastapi import Query

from runtime.admin.context import Parts
from runtime.admin.openapi import governed_routes
from runtime.admin.shapes.fields import Page, page_of
from runtime.admin.shapes.productivity import (
    ProductivityOut,
    ProductivityQuery,
    productivity_out,
)

ROUTES = governed_routes("/metrics", tag="metrics")


@ROUTES.get("/productivity", summary="Compare what calls brought")
async def read_productivity(
    parts: Parts, query: Annotated[ProductivityQuery, Query()]
) -> Page[ProductivityOut]:
    """Return one line for each session, agent, tool or task class; sessions newest first.

    Where lines are of tools, costs are those of the tool's own calls.
    """
    found = await parts.store.productivity.page(
        query.by,
        tenant=query.tenant,
        agent=query.agent,
        since_ms=query.since_ms,
        cursor=query.cursor,
        limit=query.limit,
    )
    return page_of(
        found, partial(productivity_out, milliwatts_per_core=parts.policy().milliwatts_per_core)
    )
