"""Tokens: secrets that stand for a principal, of which only hashes are stored."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, insert, select, update

from governor.ids import PrincipalId, TenantId
from memory_store.audit import Actor, note
from memory_store.errors import NotFoundError
from memory_store.identities import Identity, Proof, Role
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.tables import principals, tenants, tokens

# What tells our tokens from those of authorization servers.
OUR_PREFIX = "fbt_"
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A new token; nobody can read `secret` again, so it is kept out of `repr` too."""

    token_id: str
    secret: str = field(repr=False)
    expires_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """A token without its secret."""

    token_id: str
    principal_id: PrincipalId
    last_four: str
    created_at_ms: int
    expires_at_ms: int | None
    revoked_at_ms: int | None

    def has_ended_at(self, now_ms: int) -> bool:
        """Tell whether the token is accepted no more."""
        is_expired = self.expires_at_ms is not None and self.expires_at_ms <= now_ms
        return is_expired or self.revoked_at_ms is not None


def hash_of(secret: str) -> str:
    """Return what is stored instead of `secret`, which may be any text at all."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def insert_token(
    connection: Connection,
    principal_id: PrincipalId,
    *,
    expires_at_ms: int | None,
    by: Actor,
    now_ms: int,
) -> IssuedToken:
    """Store a new token of the principal and return it with its secret."""
    secret = f"{OUR_PREFIX}{secrets.token_urlsafe(_SECRET_BYTES)}"
    token_id = f"tok_{secrets.token_hex(8)}"
    connection.execute(
        insert(tokens),
        {
            "token_id": token_id,
            "principal_id": principal_id,
            "secret_hash": hash_of(secret),
            "last_four": secret[-4:],
            "created_at_ms": now_ms,
            "expires_at_ms": expires_at_ms,
            "revoked_at_ms": None,
        },
    )
    note(
        connection,
        by=by,
        at_ms=now_ms,
        action="token.issue",
        target=token_id,
        before=None,
        after={"principal_id": principal_id, "expires_at_ms": expires_at_ms},
    )
    return IssuedToken(token_id=token_id, secret=secret, expires_at_ms=expires_at_ms)


def revoke_token(connection: Connection, token_id: str, *, by: Actor, now_ms: int) -> TokenView:
    """Return the token after it was revoked; one that was before stays as it is.

    Raises:
        NotFoundError: there is no such token.
    """
    before = find_token(connection, token_id)
    if before.revoked_at_ms is not None:
        return before
    connection.execute(
        update(tokens).where(tokens.c.token_id == token_id).values(revoked_at_ms=now_ms)
    )
    note(
        connection,
        by=by,
        at_ms=now_ms,
        action="token.revoke",
        target=token_id,
        before={"principal_id": before.principal_id, "revoked_at_ms": None},
        after={"principal_id": before.principal_id, "revoked_at_ms": now_ms},
    )
    return find_token(connection, token_id)


def find_token(connection: Connection, token_id: str) -> TokenView:
    """Return the token.

    Raises:
        NotFoundError: there is no such token.
    """
    row = connection.execute(_tokens().where(tokens.c.token_id == token_id)).one_or_none()
    if row is None:
        message = f"there is no token {token_id}"
        raise NotFoundError(message)
    return _view(row)


def tokens_of(
    connection: Connection, principal_id: PrincipalId, *, cursor: str | None, limit: int
) -> Page[TokenView]:
    """Return some of the principal's tokens, the latest first."""
    limit = clamped(limit)
    query = (
        _tokens()
        .where(tokens.c.principal_id == principal_id)
        .order_by(tokens.c.created_at_ms.desc(), tokens.c.token_id.desc())
        .limit(limit + 1)
    )
    if cursor is not None:
        created_at_ms, token_id = key_of(cursor, kinds=(int, str))
        query = query.where(
            (tokens.c.created_at_ms < created_at_ms)
            | ((tokens.c.created_at_ms == created_at_ms) & (tokens.c.token_id < token_id))
        )
    rows = connection.execute(query).all()
    return page_of(rows, limit=limit, item=_view, key=lambda row: (row.created_at_ms, row.token_id))


def proof_for(connection: Connection, secret_hash: str) -> Proof | None:
    """Return whom the secret with that hash stands for; None if it stands for nobody."""
    row = connection.execute(
        select(
            tokens.c.token_id,
            tokens.c.secret_hash,
            tokens.c.expires_at_ms,
            principals.c.principal_id,
            principals.c.tenant,
            principals.c.name,
            principals.c.role,
        )
        .join(principals, principals.c.principal_id == tokens.c.principal_id)
        .join(tenants, tenants.c.tenant_id == principals.c.tenant)
        .where(
            tokens.c.secret_hash == secret_hash,
            tokens.c.revoked_at_ms.is_(None),
            principals.c.disabled.is_(False),
            tenants.c.disabled.is_(False),
        )
    ).one_or_none()
    # The lookup is by hash, whose timing tells nothing about a secret of 256 random bits;
    # the comparison makes the answer independent of how the database compares text.
    if row is None or not hmac.compare_digest(row.secret_hash, secret_hash):
        return None
    return Proof(
        identity=Identity(
            tenant=TenantId(row.tenant),
            principal=PrincipalId(row.principal_id),
            name=row.name,
            role=Role(row.role),
            token_id=row.token_id,
        ),
        expires_at_ms=row.expires_at_ms,
    )


def _tokens() -> Any:
    return select(
        tokens.c.token_id,
        tokens.c.principal_id,
        tokens.c.last_four,
        tokens.c.created_at_ms,
        tokens.c.expires_at_ms,
        tokens.c.revoked_at_ms,
    )


def _view(row: Any) -> TokenView:
    return TokenView(**row._mapping)  # noqa: SLF001 - public, despite its name
