"""Principals and their tokens as JSON."""

from typing import Annotated

from pydantic import Field, StrictBool, StrictInt

from governor.ids import PrincipalId, TenantId
from memory_store.identities import Role
from memory_store.paging import PAGE_LIMIT_MAX
from memory_store.principals import Principal
from memory_store.tokens import IssuedToken, TokenView
from runtime.admin.shapes.fields import EpochMs, Label, Out, Paging, Shape
from runtime.naming import Id


class PrincipalFilters(Paging):
    """Which principals are wanted."""

    tenant: TenantId | None = None


class PrincipalNew(Shape):
    """A principal to make; it is given an id if it has none."""

    id: Id | None = None
    tenant: TenantId
    name: Label | None = None
    role: Role


class PrincipalChange(Shape):
    """A principal to change; a member that is left out keeps its value.

    The members that cannot be changed may be sent back as they were read.
    """

    name: Label | None = None
    role: Role | None = None
    disabled: StrictBool | None = None
    id: PrincipalId | None = None
    tenant: TenantId | None = None
    created_at_ms: StrictInt | None = None
    updated_at_ms: StrictInt | None = None
    version: StrictInt | None = None


class PrincipalOut(Out):
    """A principal; while it is disabled, none of its tokens is accepted."""

    id: PrincipalId
    tenant: TenantId
    name: str
    role: Role
    disabled: bool
    created_at_ms: int
    updated_at_ms: int
    version: int


class TokenFilters(Paging):
    """Which of a principal's tokens are wanted: a page holds what most have in all."""

    limit: Annotated[int, Field(ge=1, le=PAGE_LIMIT_MAX)] = PAGE_LIMIT_MAX


class TokenNew(Shape):
    """A token to make; null, or nothing, makes one that does not expire."""

    expires_at_ms: EpochMs | None = None


class TokenRotation(Shape):
    """The token that takes the place of another; left out, it expires when that would have."""

    expires_at_ms: EpochMs | None = None


class TokenOut(Out):
    """A token without its secret."""

    id: str
    principal: PrincipalId
    last_four: Annotated[str, Field(description="of the secret, to recognise it by")]
    created_at_ms: int
    expires_at_ms: int | None
    revoked_at_ms: int | None


class IssuedTokenOut(Out):
    """A new token; its secret cannot be read again."""

    id: str
    principal: PrincipalId
    secret: str
    expires_at_ms: int | None


def principal_out(principal: Principal) -> PrincipalOut:
    """Return a principal as it is shown."""
    return PrincipalOut(
        id=principal.principal_id,
        tenant=principal.tenant,
        name=principal.name,
        role=principal.role,
        disabled=principal.disabled,
        created_at_ms=principal.created_at_ms,
        updated_at_ms=principal.updated_at_ms,
        version=principal.version,
    )


def token_out(view: TokenView) -> TokenOut:
    """Return a token as it is shown."""
    return TokenOut(
        id=view.token_id,
        principal=view.principal_id,
        last_four=view.last_four,
        created_at_ms=view.created_at_ms,
        expires_at_ms=view.expires_at_ms,
        revoked_at_ms=view.revoked_at_ms,
    )


def issued_token_out(token: IssuedToken, principal: PrincipalId) -> IssuedTokenOut:
    """Return a new token as it is shown, this once."""
    return IssuedTokenOut(
        id=token.token_id,
        principal=principal,
        secret=token.secret,
        expires_at_ms=token.expires_at_ms,
    )
