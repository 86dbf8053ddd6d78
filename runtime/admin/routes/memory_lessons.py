"""Playbooks, which administrators read, go back in and take over from, and figures."""

from typing import Annotated

from fastapi import Query

from governor.ids import TenantId
from memory_store.lessons.figures import MemoryFigures
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.memory_tenant import tenant_of
from runtime.admin.openapi import governed_routes, problems
from runtime.admin.parts import AdminParts
from runtime.admin.shapes.fields import Page, whole_page
from runtime.admin.shapes.memory import OfTenant
from runtime.admin.shapes.memory_lessons import (
    GoBack,
    PlaybookNamed,
    PlaybookShown,
    StatsShown,
    TakeOver,
    VersionShown,
    named,
    playbook_shown,
    stats_shown,
    version_shown,
)
from runtime.memory.administration.playbooks import PlaybookShelf

# Every one names a tenant, which may not be there.
ROUTES = governed_routes("/memory", tag="memory", responses=problems(404))
_CHANGED = problems(400, 404, 409, 413)


@ROUTES.get("/stats", summary="What is kept, and what it is worth")
async def stats(parts: Parts, of: Annotated[OfTenant, Query()]) -> StatsShown:
    """Return what is kept by lane and kind, what quiet work cost and saved, how tasks went."""
    tenant, store = await tenant_of(parts, of), parts.store
    figures = MemoryFigures(reader=store.reader)
    return stats_shown(
        await figures.kept(tenant),
        await store.questions.figures(tenant),
        await figures.classes(tenant),
        await figures.choices(tenant),
    )


@ROUTES.get("/playbooks", summary="The playbooks of a tenant")
async def listed(parts: Parts, of: Annotated[OfTenant, Query()]) -> Page[PlaybookNamed]:
    """Return the playbooks of a tenant, the one that changed last first."""
    return whole_page(map(named, await _shelf(parts).all(await tenant_of(parts, of))))


@ROUTES.get("/playbooks/{playbook}", summary="One playbook", responses=problems(404))
async def show(parts: Parts, playbook: str, of: Annotated[OfTenant, Query()]) -> PlaybookShown:
    """Return a playbook with its bullets, the best first."""
    return playbook_shown(await _shelf(parts).show(TenantId(of.tenant), playbook))


@ROUTES.get("/playbooks/{playbook}/history", summary="Its versions", responses=problems(404))
async def history(
    parts: Parts, playbook: str, of: Annotated[OfTenant, Query()]
) -> Page[VersionShown]:
    """Return the versions that can be gone back to and the one in force, the latest first."""
    found = await _shelf(parts).history(TenantId(of.tenant), playbook)
    return whole_page(map(version_shown, found))


@ROUTES.post("/playbooks/{playbook}/rollback", summary="Go back", responses=_CHANGED)
async def roll_back(parts: Parts, by: By, playbook: str, asked: GoBack) -> PlaybookShown:
    """Let a playbook be as it was in a version; what came later stays in its history."""
    kept = await _shelf(parts).roll_back(
        TenantId(asked.tenant), playbook, asked.version, by=by, now_ms=parts.clock.now_ms()
    )
    return playbook_shown(kept)


@ROUTES.post("/playbooks/{playbook}/promote", summary="Take a bullet over", responses=_CHANGED)
async def promote(parts: Parts, by: By, playbook: str, asked: TakeOver) -> PlaybookShown:
    """Make a bullet an operator's word, which agents get as an instruction."""
    now_ms = parts.clock.now_ms()
    kept = await _shelf(parts).promote(
        TenantId(asked.tenant), playbook, asked.bullet, by=by, now_ms=now_ms
    )
    await parts.store.audit.note(
        by=by,
        now_ms=now_ms,
        action="playbook.promote",
        target=playbook,
        before={},
        after={"bullet": asked.bullet, "version": kept.version},
    )
    return playbook_shown(kept)


def _shelf(parts: AdminParts) -> PlaybookShelf:
    return PlaybookShelf(parts.store.playbooks)
