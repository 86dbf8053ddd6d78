"""Principals."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Response

from governor.ids import PrincipalId
from memory_store.principals import Principal
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.shapes.fields import Page, page_of
from runtime.admin.shapes.principals import (
    PrincipalChange,
    PrincipalFilters,
    PrincipalNew,
    PrincipalOut,
    principal_out,
)
from runtime.admin.unchangeable import refuse_other
from runtime.admin.versions import IfMatch, changed, tag

ROUTES = governed_routes("/principals", tag="principals")


@ROUTES.get("", summary="List principals")
async def list_principals(
    parts: Parts, filters: Annotated[PrincipalFilters, Query()]
) -> Page[PrincipalOut]:
    """Return principals by id."""
    found = await parts.store.principals.page(
        tenant=filters.tenant, cursor=filters.cursor, limit=filters.limit
    )
    return page_of(found, principal_out)


@ROUTES.post(
    "",
    summary="Make a principal",
    status_code=HTTPStatus.CREATED,
    responses=WITH_BODY | problems(404, 409),
)
async def create_principal(
    parts: Parts, by: By, new: PrincipalNew, response: Response
) -> PrincipalOut:
    """Return the new principal; it can do nothing before it has a token."""
    principal_id = PrincipalId(new.id or parts.clock.fresh("prn"))
    principal = await parts.store.principals.create(
        principal_id,
        tenant=new.tenant,
        name=new.name or principal_id,
        role=new.role,
        by=by,
        now_ms=parts.clock.now_ms(),
    )
    response.headers["Location"] = f"/admin/v1/principals/{principal_id}"
    tag(response, principal)
    return principal_out(principal)


@ROUTES.get("/{principal_id}", summary="Read a principal", responses=problems(404))
async def read_principal(
    parts: Parts, principal_id: PrincipalId, response: Response
) -> PrincipalOut:
    """Return the principal."""
    principal = await parts.store.principals.get(principal_id)
    tag(response, principal)
    return principal_out(principal)


@ROUTES.put(
    "/{principal_id}", summary="Change a principal", responses=WITH_BODY | problems(404, 412)
)
async def change_principal(
    *,
    parts: Parts,
    by: By,
    principal_id: PrincipalId,
    change: PrincipalChange,
    response: Response,
    if_match: IfMatch = None,
) -> PrincipalOut:
    """Return the principal after the change; disabling it stops all of its tokens."""
    refuse_other("id", change.id, principal_id)

    async def read() -> Principal:
        return await parts.store.principals.get(principal_id)

    async def write(before: Principal) -> Principal:
        refuse_other("tenant", change.tenant, before.tenant)
        return await parts.store.principals.put(
            principal_id,
            name=before.name if change.name is None else change.name,
            role=before.role if change.role is None else change.role,
            disabled=before.disabled if change.disabled is None else change.disabled,
            expected_version=before.version,
            by=by,
            now_ms=parts.clock.now_ms(),
        )

    principal = await changed(
        read=read, write=write, if_match=if_match, version_sent=change.version
    )
    tag(response, principal)
    return principal_out(principal)
