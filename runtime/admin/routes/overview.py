"""What is in force, what is connected and what was changed."""

from typing import Annotated

from fastapi import Query
from pydantic import JsonValue, TypeAdapter

from runtime.admin.context import Parts
from runtime.admin.openapi import governed_routes
from runtime.admin.shapes.audit import AuditFilters, AuditOut, audit_out
from runtime.admin.shapes.fields import Page, page_of, whole_page
from runtime.admin.shapes.manifests import quarantined_of
from runtime.admin.shapes.policies import PolicyOut, policy_out

ROUTES = governed_routes()

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


@ROUTES.get("/providers", summary="List model providers", tags=["upstreams"])
async def list_providers(parts: Parts) -> Page[dict[str, JsonValue]]:
    """Return each model provider: its breaker, its keys by the names of their variables."""
    return whole_page(_UPSTREAM.validate_python(shown) for shown in parts.providers())


@ROUTES.get("/audit", summary="List changes", tags=["audit"])
async def list_changes(parts: Parts, filters: Annotated[AuditFilters, Query()]) -> Page[AuditOut]:
    """Return who changed what, the latest change first."""
    found = await parts.store.audit.page(
        actor=filters.actor,
        action=filters.action,
        target=filters.target,
        cursor=filters.cursor,
        limit=filters.limit,
    )
    return page_of(found, audit_out)
