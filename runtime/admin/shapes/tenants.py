"""Tenants and their quotas as JSON."""

from pydantic import StrictBool, StrictInt

from governor.amounts import Unit
from governor.ids import TenantId
from memory_store.budgets import BudgetView
from memory_store.tenants import Tenant
from runtime.admin.shapes.fields import (
    Label,
    Limits,
    Out,
    Shape,
    limits_shape,
)
from runtime.naming import Id
from runtime.windows import WindowShape, window_shape


class TenantNew(Shape):
    """A tenant to make; it is called by its id if it has no name."""

    id: Id
    name: Label | None = None


class TenantChange(Shape):
    """A tenant to change; a member that is left out keeps its value.

    The members that cannot be changed may be sent back as they were read.
    """

    name: Label | None = None
    disabled: StrictBool | None = None
    id: TenantId | None = None
    created_at_ms: StrictInt | None = None
    updated_at_ms: StrictInt | None = None
    version: StrictInt | None = None


class TenantOut(Out):
    """A tenant; while it is disabled, no token of its principals is accepted."""

    id: TenantId
    name: str
    disabled: bool
    created_at_ms: int
    updated_at_ms: int
    version: int


class QuotaChange(Shape):
    """What the budgets of a tenant may promise, and what all its calls together may use.

    A member that is left out keeps its value; a first quota has limits, and a lifetime unless
    it says another window.
    """

    limits: Limits | None = None
    window: WindowShape | None = None
    tenant: TenantId | None = None
    version: StrictInt | None = None


class QuotaOut(Out):
    """The quota of a tenant."""

    tenant: TenantId
    limits: dict[Unit, int]
    window: WindowShape
    version: int


class QuotaSetOut(QuotaOut):
    """The quota of a tenant after it was set, and the budgets that are now above it."""

    warnings: list[str]


def tenant_out(tenant: Tenant) -> TenantOut:
    """Return `tenant` as it is shown."""
    return TenantOut(
        id=tenant.tenant_id,
        name=tenant.name,
        disabled=tenant.disabled,
        created_at_ms=tenant.created_at_ms,
        updated_at_ms=tenant.updated_at_ms,
        version=tenant.version,
    )


def quota_out(view: BudgetView) -> QuotaOut:
    """Return a quota as it is shown."""
    return QuotaOut(
        tenant=view.budget.tenant,
        limits=limits_shape(view.budget.limits),
        window=window_shape(view.budget.window),
        version=view.version,
    )
