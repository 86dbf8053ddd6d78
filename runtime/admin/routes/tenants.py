"""Tenants and their quotas."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Response

from governor.amounts import Amounts
from governor.ids import TenantId
from memory_store.budgets import BudgetView
from memory_store.paging import PAGE_LIMIT_MAX
from memory_store.tenants import Tenant
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.parts import AdminParts
from runtime.admin.shapes.fields import Page, Paging, page_of
from runtime.admin.shapes.tenants import (
    QuotaChange,
    QuotaOut,
    QuotaSetOut,
    TenantChange,
    TenantNew,
    TenantOut,
    quota_out,
    tenant_out,
)
from runtime.admin.unchangeable import refuse_other
from runtime.admin.versions import IfMatch, changed, check_if_match, check_version_sent, tag
from runtime.windows import window_of

ROUTES = governed_routes("/tenants", tag="tenants")

_WARNINGS_MAX = 20


@ROUTES.get("", summary="List tenants")
async def list_tenants(parts: Parts, paging: Annotated[Paging, Query()]) -> Page[TenantOut]:
    """Return tenants by id."""
    found = await parts.store.tenants.page(cursor=paging.cursor, limit=paging.limit)
    return page_of(found, tenant_out)


@ROUTES.post(
    "",
    summary="Make a tenant",
    status_code=HTTPStatus.CREATED,
    responses=WITH_BODY | problems(409),
)
async def create_tenant(parts: Parts, by: By, new: TenantNew, response: Response) -> TenantOut:
    """Return the new tenant."""
    tenant = await parts.store.tenants.create(
        TenantId(new.id), name=new.name or new.id, by=by, now_ms=parts.clock.now_ms()
    )
    response.headers["Location"] = f"/admin/v1/tenants/{tenant.tenant_id}"
    tag(response, tenant)
    return tenant_out(tenant)


@ROUTES.get("/{tenant_id}", summary="Read a tenant", responses=problems(404))
async def read_tenant(parts: Parts, tenant_id: TenantId, response: Response) -> TenantOut:
    """Return the tenant."""
    tenant = await parts.store.tenants.get(tenant_id)
    tag(response, tenant)
    return tenant_out(tenant)


@ROUTES.put("/{tenant_id}", summary="Change a tenant", responses=WITH_BODY | problems(404, 412))
async def change_tenant(
    *,
    parts: Parts,
    by: By,
    tenant_id: TenantId,
    change: TenantChange,
    response: Response,
    if_match: IfMatch = None,
) -> TenantOut:
    """Return the tenant after the change; disabling it stops all of its tokens."""
    refuse_other("id", change.id, tenant_id)

    async def read() -> Tenant:
        return await parts.store.tenants.get(tenant_id)

    async def write(before: Tenant) -> Tenant:
        return await parts.store.tenants.put(
            tenant_id,
            name=before.name if change.name is None else change.name,
            disabled=before.disabled if change.disabled is None else change.disabled,
            expected_version=before.version,
            by=by,
            now_ms=parts.clock.now_ms(),
        )

    tenant = await changed(read=read, write=write, if_match=if_match, version_sent=change.version)
    tag(response, tenant)
    return tenant_out(tenant)


@ROUTES.get("/{tenant_id}/quota", summary="Read a tenant's quota", responses=problems(404))
async def read_quota(parts: Parts, tenant_id: TenantId, response: Response) -> QuotaOut:
    """Return the quota."""
    await parts.store.tenants.get(tenant_id)
    quota = await parts.store.budgets.get_quota(tenant_id)
    tag(response, quota)
    return quota_out(quota)


@ROUTES.put(
    "/{tenant_id}/quota",
    summary="Set a tenant's quota",
    responses=WITH_BODY | problems(404, 412),
)
async def set_quota(
    *,
    parts: Parts,
    by: By,
    tenant_id: TenantId,
    change: QuotaChange,
    response: Response,
    if_match: IfMatch = None,
) -> QuotaSetOut:
    """Return the quota after the change; its version stays where nothing changes.

    Budgets that are now above it stay as they are, and `warnings` names them: the quota denies
    what they would still allow.
    """
    refuse_other("tenant", change.tenant, tenant_id)
    expected_version = None
    if if_match is not None or change.version is not None:
        before = await parts.store.budgets.get_quota(tenant_id)
        check_if_match(if_match, before)
        check_version_sent(change.version, before)
        expected_version = before.version
    quota = await parts.store.budgets.put_quota(
        tenant_id,
        limits=None if change.limits is None else Amounts(change.limits),
        window=None if change.window is None else window_of(change.window),
        expected_version=expected_version,
        by=by,
        now_ms=parts.clock.now_ms(),
    )
    tag(response, quota)
    return QuotaSetOut(**dict(quota_out(quota)), warnings=await _above(parts, quota))


async def _above(parts: AdminParts, quota: BudgetView) -> list[str]:
    """Return a sentence for each limit of a budget that stands above the quota."""
    told: list[str] = []
    cursor = None
    while len(told) < _WARNINGS_MAX:
        found = await parts.store.budgets.page(
            tenant=quota.budget.tenant, cursor=cursor, limit=PAGE_LIMIT_MAX
        )
        told += [
            f"budget {budget.budget_id}: {unit} = {limit} stands above the quota of {ceiling}, "
            "which denies what is beyond it"
            for budget in (view.budget for view in found.items)
            if not budget.is_quota
            for unit, limit in budget.limits
            if unit in quota.budget.limits and limit > (ceiling := quota.budget.limits.of(unit))
        ]
        cursor = found.next
        if cursor is None:
            break
    return told[:_WARNINGS_MAX]
