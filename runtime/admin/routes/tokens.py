"""The tokens of a principal."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Response

from governor.ids import PrincipalId
from memory_store.errors import NotFoundError, TokenEndedError
from memory_store.tokens import TokenView
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.shapes.fields import Page, page_of
from runtime.admin.shapes.principals import (
    IssuedTokenOut,
    TokenFilters,
    TokenNew,
    TokenOut,
    TokenRotation,
    issued_token_out,
    token_out,
)
from runtime.failures import Fault, ProblemError, invalid

ROUTES = governed_routes("/principals/{principal_id}/tokens", tag="tokens")


@ROUTES.get("", summary="List a principal's tokens", responses=problems(404))
async def list_tokens(
    parts: Parts, principal_id: PrincipalId, filters: Annotated[TokenFilters, Query()]
) -> Page[TokenOut]:
    """Return the tokens without their secrets, the latest first."""
    found = await parts.store.principals.list_tokens(
        principal_id, cursor=filters.cursor, limit=filters.limit
    )
    return page_of(found, token_out)


@ROUTES.post(
    "",
    summary="Issue a token",
    status_code=HTTPStatus.CREATED,
    responses=WITH_BODY | problems(404),
)
async def issue_token(
    parts: Parts,
    by: By,
    principal_id: PrincipalId,
    response: Response,
    new: TokenNew | None = None,
) -> IssuedTokenOut:
    """Return a new token with its secret, which cannot be read again."""
    expires_at_ms = None if new is None else new.expires_at_ms
    now_ms = parts.clock.now_ms()
    _check_future(expires_at_ms, now_ms=now_ms)
    token = await parts.store.principals.issue_token(
        principal_id, expires_at_ms=expires_at_ms, by=by, now_ms=now_ms
    )
    _keep_out_of_caches(response)
    return issued_token_out(token, principal_id)


@ROUTES.post(
    "/{token_id}/rotate",
    summary="Replace a token",
    status_code=HTTPStatus.CREATED,
    responses=WITH_BODY | problems(404, 409),
)
async def rotate_token(
    *,
    parts: Parts,
    by: By,
    principal_id: PrincipalId,
    token_id: str,
    response: Response,
    rotation: TokenRotation | None = None,
) -> IssuedTokenOut:
    """Return the token that takes the place of another, which stops working at once.

    One that is revoked or has expired cannot be replaced: issue a new one.
    """
    old = await _token(parts, principal_id, token_id)
    now_ms = parts.clock.now_ms()
    if old.has_ended_at(now_ms):
        raise TokenEndedError
    is_said = rotation is not None and "expires_at_ms" in rotation.model_fields_set
    expires_at_ms = rotation.expires_at_ms if rotation and is_said else old.expires_at_ms
    _check_future(expires_at_ms, now_ms=now_ms)
    token = await parts.store.principals.rotate_token(
        token_id, expires_at_ms=expires_at_ms, by=by, now_ms=now_ms
    )
    _keep_out_of_caches(response)
    return issued_token_out(token, principal_id)


@ROUTES.delete(
    "/{token_id}",
    summary="Revoke a token",
    status_code=HTTPStatus.NO_CONTENT,
    responses=problems(404),
)
async def revoke_token(parts: Parts, by: By, principal_id: PrincipalId, token_id: str) -> None:
    """Accept the token no more; one that was revoked before stays so."""
    await _token(parts, principal_id, token_id)
    await parts.store.principals.revoke_token(token_id, by=by, now_ms=parts.clock.now_ms())


async def _token(parts: Parts, principal_id: PrincipalId, token_id: str) -> TokenView:
    """Return the token if it is the principal's.

    Raises:
        NotFoundError: the principal, or its token, does not exist.
    """
    view = await parts.store.principals.get_token(token_id)
    if view.principal_id != principal_id:
        message = f"there is no token {token_id} of {principal_id}"
        raise NotFoundError(message)
    return view


def _check_future(expires_at_ms: int | None, *, now_ms: int) -> None:
    if expires_at_ms is not None and expires_at_ms <= now_ms:
        detail = f"{expires_at_ms} is not after now, which is {now_ms}"
        raise ProblemError(invalid(Fault(field="expires_at_ms", detail=detail)))


def _keep_out_of_caches(response: Response) -> None:
    response.headers["Cache-Control"] = "no-store"
