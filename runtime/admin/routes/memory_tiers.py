"""How searches of the memory are chosen: what was learned, in force or taken back."""

from typing import Annotated

from fastapi import Query

from governor.ids import TenantId
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.memory_tenant import tenant_of
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.shapes.memory import OfTenant
from runtime.admin.shapes.memory_tiers import PutInForce, TiersShown, tiers_shown
from runtime.memory.tiers.learning import TierLearner

# Every one names a tenant, which may not be there.
ROUTES = governed_routes("/memory/tiers", tag="memory", responses=problems(404))


@ROUTES.get("", summary="What searches by other plans would have earned")
async def report(parts: Parts, of: Annotated[OfTenant, Query()]) -> TiersShown:
    """Return what is in force for a tenant's searches, and what the log says of other ways."""
    return tiers_shown(await _learner(parts).report(await tenant_of(parts, of)))


@ROUTES.post(
    "/promote",
    summary="Let what was learned choose",
    responses=WITH_BODY | problems(409),
)
async def promote(parts: Parts, by: By, asked: PutInForce) -> TiersShown:
    """Put in force what was learned, if by the log it loses nothing, or if it is forced."""
    tenant, learner = await tenant_of(parts, asked), _learner(parts)
    await learner.promote(tenant, is_forced=asked.force)
    return await _told(parts, by, learner, tenant, "memory.tiers_promoted")


@ROUTES.post("/rollback", summary="Let what was before choose", responses=WITH_BODY)
async def roll_back(parts: Parts, by: By, asked: OfTenant) -> TiersShown:
    """Put in force what was before; at the end the usual plan."""
    tenant, learner = await tenant_of(parts, asked), _learner(parts)
    await learner.roll_back(tenant)
    return await _told(parts, by, learner, tenant, "memory.tiers_rolled_back")


async def _told(
    parts: Parts, by: By, learner: TierLearner, tenant: TenantId, action: str
) -> TiersShown:
    told = tiers_shown(await learner.report(tenant))
    await parts.store.audit.note(
        by=by,
        now_ms=parts.clock.now_ms(),
        action=action,
        target=tenant,
        before={},
        after={"in_force": told.in_force, "revision": told.revision},
    )
    return told


def _learner(parts: Parts) -> TierLearner:
    return TierLearner(parts.store.choices, clock=parts.clock)
