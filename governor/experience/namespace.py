"""Where experiences are kept together, and who may do what there."""

from dataclasses import dataclass
from enum import StrEnum

from governor.ids import NamespaceId, PrincipalId, TenantId

# The namespaces that are there without anybody making them.
OWN = "agent"
SHARED = "tenant"
EVERYBODY = PrincipalId("*")


class Right(StrEnum):
    """What a principal may do in a namespace; each includes those before it."""

    READ = "read"
    WRITE = "write"
    MANAGE = "manage"

    def covers(self, asked: "Right") -> bool:
        """Tell whether who has this right may do what `asked` says."""
        order = tuple(Right)
        return order.index(self) >= order.index(asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A right that a principal has; `EVERYBODY` is every principal of the tenant."""

    principal: PrincipalId
    right: Right


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace of a tenant, by the name that its principals use.

    `owner` is the agent whose own it is, None of one that is shared. `bytes_max` bounds the
    contents, None where only the tenant's quota does.
    """

    namespace: NamespaceId
    tenant: TenantId
    name: str
    owner: PrincipalId | None = None
    grants: tuple[Grant, ...] = ()
    bytes_max: int | None = None

    def permits(self, principal: PrincipalId, asked: Right, *, tenant: TenantId) -> bool:
        """Tell whether `principal` of `tenant` may do what `asked` says; in doubt it may not."""
        if tenant != self.tenant:
            return False
        if self.owner is not None and principal == self.owner:
            return True
        return any(
            grant.right.covers(asked)
            for grant in self.grants
            if grant.principal in (principal, EVERYBODY)
        )
