"""What is in force, what is connected and what was changed."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import JsonValue, TypeAdapter

from governor.ids import UpstreamName
from runtime.admin.context import Parts
from runtime.admin.parts import AdminParts
from runtime.admin.shapes.audit import AuditOut, audit_out
from runtime.admin.shapes.fields import Page, Paging, page_of, whole_page
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
        _UPSTREAM.validate_python({**health, "quarantined": _quarantined(parts, health)})
        for health in parts.upstreams()
    )


def _quarantined(parts: AdminParts, health: Mapping[str, object]) -> int:
    review = parts.pins.review(UpstreamName(str(health["name"])))
    return 0 if review is None else len(review.quarantined)


@ROUTES.get("/audit", summary="List changes", tags=["audit"])
async def list_changes(parts: Parts, paging: Annotated[Paging, Query()]) -> Page[AuditOut]:
    """Return who changed what, the latest change first."""
    found = await parts.store.audit.page(cursor=paging.cursor, limit=paging.limit)
    return page_of(found, audit_out)
