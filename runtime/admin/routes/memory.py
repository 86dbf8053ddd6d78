"""The experience memory: namespaces, what stands where, what is promoted, withdrawn, erased."""

import json
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Query, Response

from governor.experience.namespace import EVERYBODY, Namespace
from governor.ids import ExperienceId, PrincipalId, TenantId
from memory_store.errors import NotFoundError
from memory_store.experiences.values import SLICE_BYTES_MAX
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.memory_tenant import tenant_of
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.parts import AdminParts
from runtime.admin.shapes.fields import Page, page_of, whole_page
from runtime.admin.shapes.memory import (
    ChangedOut,
    ContentWanted,
    EraseIn,
    ExperienceFilters,
    ExperienceNew,
    ExperienceOut,
    ExperienceShown,
    FoundOut,
    GrantedOut,
    GrantIn,
    LaneUsageOut,
    LimitIn,
    NamespaceNew,
    NamespaceOut,
    OfTenant,
    PromotedOut,
    PromoteIn,
    ReceiptIn,
    ReceiptOut,
    RevokeIn,
    SearchIn,
    WithdrawIn,
    changed_out,
    experience_out,
    finding_out,
    hit_out,
    namespace_out,
    promoted_out,
    usage_out,
    with_history,
)
from runtime.admin.shapes.memory_relations import RelationsOut, relations_out
from runtime.memory.namespaces.places import name_of

# Every one names a tenant, which may not be there.
ROUTES = governed_routes("/memory", tag="memory", responses=problems(404))

_RELATED_MAX = 50
Index = Annotated[ExperienceId, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


@ROUTES.get("/namespaces", summary="List namespaces")
async def list_namespaces(parts: Parts, of: Annotated[OfTenant, Query()]) -> Page[NamespaceOut]:
    """Return a tenant's namespaces, the agents' own among them."""
    found = await parts.memory.namespaces.list(tenant=await tenant_of(parts, of))
    return whole_page(_shown(parts, one) for one in found)


@ROUTES.post(
    "/namespaces",
    summary="Make a namespace",
    status_code=HTTPStatus.CREATED,
    responses=WITH_BODY,
)
async def make_namespace(parts: Parts, by: By, new: NamespaceNew) -> NamespaceOut:
    """Return the namespace of that name; one that is there already is as it was."""
    now_ms = parts.clock.now_ms()
    made = await parts.memory.namespaces.make(
        new.name, tenant=await tenant_of(parts, new), bytes_max=new.bytes_max, now_ms=now_ms
    )
    after = {"name": made.name, "bytes_max": made.bytes_max}
    await parts.store.audit.note(
        by=by,
        now_ms=now_ms,
        action="memory.namespace.made",
        target=made.namespace,
        before={},
        after=after,
    )
    return _shown(parts, made)


@ROUTES.post(
    "/namespaces/{namespace:path}/grants",
    summary="Grant a right in a namespace",
    responses=WITH_BODY | problems(404),
)
async def grant(parts: Parts, by: By, namespace: str, asked: GrantIn) -> GrantedOut:
    """Return the namespace, by its id or name, with the right that a principal has now."""
    now_ms, tenant = parts.clock.now_ms(), await tenant_of(parts, asked)
    before = await parts.memory.places.of(namespace, tenant=tenant)
    after = await parts.memory.namespaces.grant(
        before.namespace,
        PrincipalId(asked.principal),
        asked.right,
        tenant=tenant,
        by=by.name,
        now_ms=now_ms,
    )
    await parts.store.audit.note(
        by=by,
        now_ms=now_ms,
        action="memory.namespace.granted",
        target=before.namespace,
        before=_shown(parts, before).model_dump(mode="json"),
        after=_shown(parts, after).model_dump(mode="json"),
    )
    is_known = await _is_known(parts, asked.principal, tenant)
    return GrantedOut(**_shown(parts, after).model_dump(), is_known=is_known)


@ROUTES.post(
    "/namespaces/{namespace:path}/limit",
    summary="Bound a namespace",
    responses=WITH_BODY | problems(404),
)
async def limit(parts: Parts, by: By, namespace: str, asked: LimitIn) -> NamespaceOut:
    """Return the namespace, by its id or name, with that bound; what is above it stays.

    A bound that the configuration says comes into force again with the next use.
    """
    tenant = await tenant_of(parts, asked)
    before = await parts.memory.places.of(namespace, tenant=tenant)
    after = await parts.memory.namespaces.limit(before.namespace, asked.bytes_max, tenant=tenant)
    await parts.store.audit.note(
        by=by,
        now_ms=parts.clock.now_ms(),
        action="memory.namespace.limited",
        target=before.namespace,
        before={"bytes_max": before.bytes_max},
        after={"bytes_max": after.bytes_max},
    )
    return _shown(parts, after)


@ROUTES.get("/usage", summary="Read how much is kept")
async def read_usage(parts: Parts, of: Annotated[OfTenant, Query()]) -> Page[LaneUsageOut]:
    """Return how much each namespace of a tenant keeps, by lane."""
    tenant = await tenant_of(parts, of)
    found = await parts.memory.namespaces.usage(tenant=tenant)
    listed = await parts.memory.namespaces.list(tenant=tenant)
    names = {one.namespace: name_of(one) for one in listed}
    return whole_page(usage_out(one, names.get(one.namespace, "")) for one in found)


@ROUTES.get("/experiences", summary="List experiences")
async def list_experiences(
    parts: Parts, filters: Annotated[ExperienceFilters, Query()]
) -> Page[ExperienceOut]:
    """Return experiences, the latest first; those in quarantine wait to be promoted."""
    tenant, named = await tenant_of(parts, filters), filters.namespace
    among = None if named is None else await parts.memory.places.of(named, tenant=tenant)
    found = await parts.memory.book.page(
        tenant=tenant,
        namespace=None if among is None else among.namespace,
        kind=filters.kind,
        lane=filters.lane,
        standing=filters.standing,
        writer=None if filters.writer is None else PrincipalId(filters.writer),
        limit=filters.limit,
        cursor=filters.cursor,
    )
    return page_of(found, experience_out)


@ROUTES.post(
    "/experiences",
    summary="Teach a lesson",
    status_code=HTTPStatus.CREATED,
    responses=WITH_BODY | problems(404),
)
async def teach(parts: Parts, by: By, new: ExperienceNew) -> ExperienceOut:
    """Return what was written, which agents are given as an instruction."""
    kept = await parts.memory.teach(new.taught, tenant=await tenant_of(parts, new), by=by)
    return experience_out(kept)


@ROUTES.get("/experiences/{index}", summary="Read an experience", responses=problems(404))
async def read_experience(
    parts: Parts, index: Index, of: Annotated[OfTenant, Query()]
) -> ExperienceShown:
    """Return what is kept of an experience without its content, and what was done to it."""
    tenant = await tenant_of(parts, of)
    one = await parts.memory.show(index, tenant=tenant)
    return with_history(one, await parts.memory.book.history(index, tenant=tenant))


@ROUTES.get(
    "/experiences/{index}/relations",
    summary="Read what became of an experience",
    responses=problems(404),
)
async def read_relations(
    parts: Parts, index: Index, of: Annotated[OfTenant, Query()]
) -> RelationsOut:
    """Return what was made of an experience, and who was given it lately: at most 50 of each."""
    tenant, book = await tenant_of(parts, of), parts.memory.book
    await parts.memory.show(index, tenant=tenant)
    made = await book.made_of(index, tenant=tenant, most=_RELATED_MAX)
    uses = await book.uses_of((index,), tenant=tenant, most=_RELATED_MAX)
    return relations_out(made, uses)


@ROUTES.get(
    "/experiences/{index}/content",
    summary="Read the content of an experience",
    responses=problems(404),
    response_class=Response,
)
async def read_content(
    parts: Parts, index: Index, wanted: Annotated[ContentWanted, Query()]
) -> Response:
    """Return at most one MiB of the bytes, from `offset` on; the whole proved intact.

    The receipt that proves it is in the header `Flyball-Receipt`, as `/memory/receipts` takes it.
    """
    part = await parts.memory.book.content(
        index, tenant=await tenant_of(parts, wanted), offset=wanted.offset, length=SLICE_BYTES_MAX
    )
    return Response(
        part.content,
        media_type="application/octet-stream",
        headers={
            "Content-Disposition": "attachment",
            "X-Content-Type-Options": "nosniff",
            "Flyball-Total-Bytes": str(part.experience.size_bytes),
            "Flyball-Receipt": json.dumps(asdict(part.receipt)),
        },
    )


@ROUTES.post("/search", summary="Search experiences", responses=WITH_BODY)
async def search(parts: Parts, asked: SearchIn) -> FoundOut:
    """Return what is found in every lane, the best first."""
    found = await parts.memory.search(
        asked.query,
        tenant=await tenant_of(parts, asked),
        namespaces=asked.namespaces,
        most=asked.limit,
        kind=asked.kind,
        lane=asked.lane,
    )
    return FoundOut(items=[hit_out(hit) for hit in found.hits], left_out=found.left_out)


@ROUTES.post(
    "/experiences/{index}/promote",
    summary="Promote an experience",
    responses=WITH_BODY | problems(404, 409),
)
async def promote(parts: Parts, by: By, index: Index, asked: PromoteIn) -> PromotedOut:
    """Let an experience be found as evidence, or write it again as an instruction."""
    promoted = await parts.memory.promote(
        index, asked.to, tenant=await tenant_of(parts, asked), by=by, why=asked.why
    )
    return promoted_out(promoted)


@ROUTES.post(
    "/experiences/{index}/withdraw",
    summary="Withdraw an experience",
    responses=WITH_BODY | problems(404, 409),
)
async def withdraw(parts: Parts, by: By, index: Index, asked: WithdrawIn) -> ChangedOut:
    """Put an experience into quarantine, or revoke it with everything that was made of it."""
    changed = await parts.memory.withdraw(
        index, asked.to, tenant=await tenant_of(parts, asked), by=by, why=asked.why
    )
    return changed_out(changed)


@ROUTES.post("/revoke", summary="Revoke what a writer wrote", responses=WITH_BODY)
async def revoke(parts: Parts, by: By, asked: RevokeIn) -> ChangedOut:
    """Revoke what somebody wrote since a time, with everything that was made of it."""
    changed = await parts.memory.book.revoke_writer(
        PrincipalId(asked.writer),
        tenant=await tenant_of(parts, asked),
        by=by.name,
        why=asked.why,
        since_ms=asked.since_ms,
        now_ms=parts.clock.now_ms(),
    )
    return changed_out(changed)


@ROUTES.post("/erase", summary="Erase experiences for good", responses=WITH_BODY)
async def erase(parts: Parts, by: By, asked: EraseIn) -> ChangedOut:
    """Erase what is named, with everything that was made of it; a tombstone stays in the log."""
    tenant = await tenant_of(parts, asked)
    among = None
    if asked.namespace is not None:
        among = (await parts.memory.places.of(asked.namespace, tenant=tenant)).namespace
    missing = await parts.memory.missing(asked.ids, tenant=tenant)
    changed = await parts.memory.book.erase(
        tenant=tenant,
        by=by.name,
        why=asked.why,
        now_ms=parts.clock.now_ms(),
        ids=asked.ids,
        session=asked.of_session,
        writer=asked.of_writer,
        namespace=among,
    )
    return changed_out(changed, missing=missing)


@ROUTES.post("/receipts", summary="Verify a receipt", responses=WITH_BODY)
async def verify_receipt(parts: Parts, asked: ReceiptIn) -> ReceiptOut:
    """Return whether this house gave out a receipt, and whether its log still says so."""
    return finding_out(await parts.memory.book.proves(asked.receipt))


def _shown(parts: AdminParts, one: Namespace) -> NamespaceOut:
    return namespace_out(one, parts.memory.places.given_anyway(one))


async def _is_known(parts: AdminParts, principal: str, tenant: TenantId) -> bool:
    if principal == EVERYBODY:
        return True
    try:
        return (await parts.store.principals.get(PrincipalId(principal))).tenant == tenant
    except NotFoundError:
        return False
