"""Principals: the agents and administrators of a tenant, and how they prove who they are."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, insert, select, update

from governor.ids import PrincipalId, TenantId
from memory_store.advisory import Duty, in_turn
from memory_store.audit import Actor, note
from memory_store.errors import AlreadyExistsError, NotFoundError, TokenEndedError
from memory_store.identities import Identities, Identity, Proof, Role
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.tables import principals, tenants
from memory_store.tenants import find_tenant
from memory_store.tokens import (
    IssuedToken,
    TokenView,
    find_token,
    hash_of,
    insert_token,
    proof_for,
    revoke_token,
    tokens_of,
)
from memory_store.versions import check_version
from memory_store.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A principal; while it is disabled, none of its tokens is accepted."""

    principal_id: PrincipalId
    tenant: TenantId
    name: str
    role: Role
    disabled: bool
    created_at_ms: int
    updated_at_ms: int
    version: int


class PrincipalBook:
    """Makes, changes and lists principals, and tells whom a secret stands for."""

    def __init__(self, *, writer: Writer, reader: Reader, identities: Identities) -> None:
        self._writer = writer
        self._reader = reader
        self._identities = identities

    async def authenticate(self, secret: str, *, now_ms: int) -> Identity | None:
        """Return whom `secret` stands for.

        None for a secret that is unknown, expired or revoked, and for one whose principal
        or tenant is disabled; which of these is not told.
        """
        return await self.recognise(hash_of(secret), now_ms=now_ms)

    async def recognise(self, secret_hash: str, *, now_ms: int) -> Identity | None:
        """Return whom the secret of that hash stands for; None as `authenticate` does."""
        proof = self._identities.get(secret_hash, now_ms=now_ms)
        if proof is None:
            epoch = self._identities.epoch
            proof = await self.proof(secret_hash)
            if proof is None:
                return None
            self._identities.remember(secret_hash, proof, epoch=epoch, asked_at_ms=now_ms)
        return proof.identity if proof.holds_at(now_ms) else None

    async def identity_of(self, principal_id: PrincipalId, *, now_ms: int) -> Identity | None:
        """Return a principal that has proven elsewhere who it is.

        None if there is none, or if it or its tenant is disabled; which of these is not told.
        """
        key = f"principal/{principal_id}"  # no hash has a slash
        proof = self._identities.get(key, now_ms=now_ms)
        if proof is None:
            epoch = self._identities.epoch
            proof = await self.proof_of(principal_id, key=key)
            if proof is None:
                return None
            self._identities.remember(key, proof, epoch=epoch, asked_at_ms=now_ms)
        return proof.identity

    async def proof(self, secret_hash: str) -> Proof | None:
        """Return whom the secret of that hash stands for; None as `authenticate` does."""
        return await self._reader.run(lambda connection: proof_for(connection, secret_hash))

    async def proof_of(self, principal_id: PrincipalId, *, key: str) -> Proof | None:
        """Return what stands for a proof of that principal; None as `identity_of` does."""
        return await self._reader.run(
            lambda connection: _proof_of(connection, principal_id, token_id=key)
        )

    async def create(
        self,
        principal_id: PrincipalId,
        *,
        tenant: TenantId,
        name: str,
        role: Role,
        by: Actor,
        now_ms: int,
    ) -> Principal:
        """Return the new principal.

        Raises:
            AlreadyExistsError: the id is taken, in this or in another tenant.
            NotFoundError: there is no such tenant.
        """

        def work(connection: Connection) -> Principal:
            find_tenant(connection, tenant)
            if _find(connection, principal_id) is not None:
                message = f"there is a principal {principal_id} already"
                raise AlreadyExistsError(message)
            connection.execute(
                insert(principals),
                {
                    "principal_id": principal_id,
                    "tenant": tenant,
                    "name": name,
                    "role": role.value,
                    "disabled": False,
                    "created_at_ms": now_ms,
                    "updated_at_ms": now_ms,
                    "version": 1,
                },
            )
            after = _existing(connection, principal_id)
            _note(connection, "principal.create", None, after, by=by, now_ms=now_ms)
            return after

        return await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    async def put(
        self,
        principal_id: PrincipalId,
        *,
        name: str,
        role: Role,
        disabled: bool = False,
        expected_version: int | None,
        by: Actor,
        now_ms: int,
    ) -> Principal:
        """Return the principal after the change; the tenant of a principal never changes.

        Raises:
            NotFoundError: there is no such principal.
            VersionConflictError: it was changed since `expected_version`.
        """
        values = {"name": name, "role": role.value, "disabled": disabled}
        return await self._change(
            principal_id, values, expected_version=expected_version, by=by, now_ms=now_ms
        )

    async def disable(self, principal_id: PrincipalId, *, by: Actor, now_ms: int) -> Principal:
        """Accept none of the principal's tokens any more.

        Raises:
            NotFoundError: there is no such principal.
        """
        return await self._change(
            principal_id, {"disabled": True}, expected_version=None, by=by, now_ms=now_ms
        )

    async def get(self, principal_id: PrincipalId) -> Principal:
        """Return the principal.

        Raises:
            NotFoundError: there is no such principal.
        """
        return await self._reader.run(lambda connection: _existing(connection, principal_id))

    async def page(
        self, *, tenant: TenantId | None = None, cursor: str | None = None, limit: int = 50
    ) -> Page[Principal]:
        """Return principals by id."""
        limit = clamped(limit)
        query = select(principals).order_by(principals.c.principal_id).limit(limit + 1)
        if tenant is not None:
            query = query.where(principals.c.tenant == tenant)
        if cursor is not None:
            (after,) = key_of(cursor, kinds=(str,))
            query = query.where(principals.c.principal_id > after)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return page_of(rows, limit=limit, item=_view, key=lambda row: (row.principal_id,))

    async def issue_token(
        self, principal_id: PrincipalId, *, expires_at_ms: int | None, by: Actor, now_ms: int
    ) -> IssuedToken:
        """Return a new token; its secret is shown this once.

        Raises:
            NotFoundError: there is no such principal.
        """

        def work(connection: Connection) -> IssuedToken:
            _existing(connection, principal_id)
            return insert_token(
                connection, principal_id, expires_at_ms=expires_at_ms, by=by, now_ms=now_ms
            )

        return await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    async def rotate_token(
        self, token_id: str, *, expires_at_ms: int | None, by: Actor, now_ms: int
    ) -> IssuedToken:
        """Return a token that takes the place of another, which is revoked at once.

        Raises:
            NotFoundError: there is no such token.
            TokenEndedError: it is accepted no more, so nothing can take its place.
        """

        def work(connection: Connection) -> IssuedToken:
            old = find_token(connection, token_id)
            if old.has_ended_at(now_ms):
                raise TokenEndedError
            revoke_token(connection, token_id, by=by, now_ms=now_ms)
            return insert_token(
                connection, old.principal_id, expires_at_ms=expires_at_ms, by=by, now_ms=now_ms
            )

        return await self._writer.run(
            in_turn(Duty.ADMINISTRATION, work), after_commit=self._identities.forget_all
        )

    async def revoke_token(self, token_id: str, *, by: Actor, now_ms: int) -> TokenView:
        """Accept the token no more.

        Raises:
            NotFoundError: there is no such token.
        """
        work = partial(revoke_token, token_id=token_id, by=by, now_ms=now_ms)
        return await self._writer.run(
            in_turn(Duty.ADMINISTRATION, work),
            after_commit=self._identities.forget_all,
        )

    async def get_token(self, token_id: str) -> TokenView:
        """Return the token, whether or not it is still accepted.

        Raises:
            NotFoundError: there is no such token.
        """
        return await self._reader.run(lambda connection: find_token(connection, token_id))

    async def list_tokens(
        self, principal_id: PrincipalId, *, cursor: str | None = None, limit: int = 50
    ) -> Page[TokenView]:
        """Return the principal's tokens, the latest first.

        Raises:
            NotFoundError: there is no such principal.
        """

        def work(connection: Connection) -> Page[TokenView]:
            _existing(connection, principal_id)
            return tokens_of(connection, principal_id, cursor=cursor, limit=limit)

        return await self._reader.run(work)

    async def _change(
        self,
        principal_id: PrincipalId,
        values: Mapping[str, object],
        *,
        expected_version: int | None,
        by: Actor,
        now_ms: int,
    ) -> Principal:
        def work(connection: Connection) -> Principal:
            before = _existing(connection, principal_id)
            check_version(expected=expected_version, actual=before.version)
            connection.execute(
                update(principals)
                .where(principals.c.principal_id == principal_id)
                .values(**values, updated_at_ms=now_ms, version=before.version + 1)
            )
            after = _existing(connection, principal_id)
            _note(connection, "principal.put", before, after, by=by, now_ms=now_ms)
            return after

        return await self._writer.run(
            in_turn(Duty.ADMINISTRATION, work), after_commit=self._identities.forget_all
        )


def _proof_of(connection: Connection, principal_id: PrincipalId, *, token_id: str) -> Proof | None:
    row = connection.execute(
        select(principals)
        .join(tenants, tenants.c.tenant_id == principals.c.tenant)
        .where(
            principals.c.principal_id == principal_id,
            principals.c.disabled.is_(False),
            tenants.c.disabled.is_(False),
        )
    ).one_or_none()
    if row is None:
        return None
    found = _view(row)
    return Proof(
        identity=Identity(
            tenant=found.tenant,
            principal=found.principal_id,
            name=found.name,
            role=found.role,
            token_id=token_id,
        ),
        expires_at_ms=None,
    )


def _existing(connection: Connection, principal_id: PrincipalId) -> Principal:
    found = _find(connection, principal_id)
    if found is None:
        message = f"there is no principal {principal_id}"
        raise NotFoundError(message)
    return found


def _find(connection: Connection, principal_id: PrincipalId) -> Principal | None:
    row = connection.execute(
        select(principals).where(principals.c.principal_id == principal_id)
    ).one_or_none()
    return None if row is None else _view(row)


def _view(row: Any) -> Principal:
    columns = dict(row._mapping)  # noqa: SLF001 - public, despite its name
    return Principal(**{**columns, "role": Role(columns["role"])})


def _note(
    connection: Connection,
    action: str,
    before: Principal | None,
    after: Principal,
    *,
    by: Actor,
    now_ms: int,
) -> None:
    note(
        connection,
        by=by,
        at_ms=now_ms,
        action=action,
        target=after.principal_id,
        before=None if before is None else asdict(before),
        after=asdict(after),
    )
