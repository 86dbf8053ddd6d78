"""Whose memory a request is about."""

from typing import Protocol

from governor.ids import TenantId
from memory_store.errors import NotFoundError
from runtime.admin.parts import AdminParts


class OfTenant(Protocol):
    """What names a tenant."""

    @property
    def tenant(self) -> str:
        """The tenant's id."""
        ...


async def tenant_of(parts: AdminParts, asked: OfTenant) -> TenantId:
    """Return the tenant that a request names.

    Raises:
        NotFoundError: there is no such one.
    """
    try:
        return (await parts.store.tenants.get(TenantId(asked.tenant))).tenant_id
    except NotFoundError as error:
        message = f"there is no tenant {asked.tenant!r:.120}"
        raise NotFoundError(message) from error
