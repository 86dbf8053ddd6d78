"""What is in force, what is connected and what was changed."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import JsonValue, TypeAdapter

from memory_store.errors import NotFoundError
from runtime.admin.context import Parts
from runtime.admin.openapi import problems
from runtime.admin.shapes.audit import AuditOut, audit_out
from runtime.admin.shapes.fields import Page, Paging, page_of, whole_page
from runtime.admin.shapes.manifests import quarantined_of
from runtime.admin.shapes.policies import PolicyOut, policy_out

ROUTES = APIRouter()

_UPSTREAM: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


@ROUTES.get("/policies", summary="Read the policy in force", tags=["policies"])
async def read_policy(parts: Parts) -> PolicyOut:
    """Return the rules in the order in which they are asked."""
    return policy_out(parts.policy())


@ROUTES.get("/upstreams", summary="List upstreams", tags=["upstreams"])
async def list_upstreams(parts: Parts) -> Page[dict[str, JsonValue]]:
    """Return each upstream with its health, and how many of its tools wait for an approval."""
    return whole_page(
        _UPSTREAM.validate_python({**health, "quarantined": quarantined_of(parts, health)})
        for health in parts.upstreams()
    )


@ROUTES.get(
    "/upstreams/{name}", summary="Read an upstream", tags=["upstreams"], responses=problems(404)
)
async def read_upstream(parts: Parts, name: str) -> dict[str, JsonValue]:
    """Return its health, its processes, how it ended last, and what it wrote beside the protocol.

    `stderr` are the last lines of a server that is started, without what looks like a secret;
    `schema_faults` which schemas of its tools check nothing, and why.
    """
    found = await parts.upstream(name)
    if found is None:
        raise NotFoundError(f"there is no upstream {name}")
    faults = [
        {"tool": fault.tool, "which": fault.which, "why": fault.why}
        for fault in parts.schema_faults()
        if fault.upstream == name
    ]
    quarantined = quarantined_of(parts, found)
    return _UPSTREAM.validate_python({**found, "quarantined": quarantined, "schema_faults": faults})


@ROUTES.get("/audit", summary="List changes", tags=["audit"])
async def list_changes(parts: Parts, paging: Annotated[Paging, Query()]) -> Page[AuditOut]:
    """Return who changed what, the latest change first."""
    found = await parts.store.audit.page(cursor=paging.cursor, limit=paging.limit)
    return page_of(found, audit_out)
