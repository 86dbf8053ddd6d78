"""The namespaces of experiences, and who was granted what in them."""

import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from governor.experience.kinds import TrustLane
from governor.experience.namespace import EVERYBODY, Grant, Namespace, Right
from governor.ids import NamespaceId, PrincipalId, TenantId
from memory_store.engine import driver_of
from memory_store.errors import NamespaceNotFoundError
from memory_store.experiences.drafts import checked_names
from memory_store.experiences.tables import (
    experience_grants,
    experience_namespaces,
    experience_totals,
)
from memory_store.experiences.values import NamespaceUsage
from memory_store.reader import Reader
from memory_store.statement import Driver, Statement
from memory_store.writer import Writer

LISTED_MAX = 1_000
_spaces = experience_namespaces.c
_grants = experience_grants.c
_COLUMNS = (_spaces.namespace, _spaces.tenant, _spaces.name, _spaces.owner, _spaces.bytes_max)
_FIND = Statement(
    select(*_COLUMNS).where(
        _spaces.tenant == bindparam("tenant"),
        _spaces.name == bindparam("name"),
        _spaces.owner == bindparam("owner"),
    )
)
_GET = Statement(
    select(*_COLUMNS).where(
        _spaces.tenant == bindparam("tenant"), _spaces.namespace == bindparam("namespace")
    )
)
_GRANTS = Statement(
    select(_grants.principal, _grants.right)
    .where(_grants.namespace == bindparam("namespace"))
    .order_by(_grants.principal)
)


class NamespaceBook:
    """Keeps which namespaces each tenant has; who may use one is for `Namespace.permits`."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def find(
        self, name: str, *, tenant: TenantId, owner: PrincipalId | None = None
    ) -> Namespace | None:
        """Return the namespace of that name, that of `owner` if one is named; None without it."""
        asked = {"tenant": tenant, "name": name, "owner": owner or ""}
        return await self._reader.run(lambda connection: _found(driver_of(connection), asked))

    async def get(self, namespace: NamespaceId, *, tenant: TenantId) -> Namespace:
        """Return the namespace of that id.

        Raises:
            NamespaceNotFoundError: the tenant has no such one.
        """
        return await self._reader.run(
            lambda connection: _get(driver_of(connection), namespace, tenant)
        )

    async def make(
        self,
        name: str,
        *,
        tenant: TenantId,
        now_ms: int,
        owner: PrincipalId | None = None,
        bytes_max: int | None = None,
    ) -> Namespace:
        """Return the namespace of that name, made if it is not there; it is then as it was."""
        checked_names(tenant=tenant, name=name, owner=owner)
        row = {
            "namespace": f"ns_{secrets.token_hex(12)}",
            "tenant": tenant,
            "name": name,
            "owner": owner or "",
            "bytes_max": bytes_max,
            "created_at_ms": now_ms,
        }

        def work(connection: Connection) -> Namespace:
            made = upsert(experience_namespaces).values(row).on_conflict_do_nothing()
            connection.execute(made)
            asked = {name: row[name] for name in ("tenant", "name", "owner")}
            found = _found(driver_of(connection), asked)
            assert found is not None, "it was made"
            return found

        return await self._writer.run(work)

    async def limit(
        self, namespace: NamespaceId, bytes_max: int | None, *, tenant: TenantId
    ) -> Namespace:
        """Return the namespace with that bound to its contents; what is above it stays.

        Raises:
            NamespaceNotFoundError: the tenant has no such one.
        """

        def work(connection: Connection) -> Namespace:
            is_this = (_spaces.namespace == namespace) & (_spaces.tenant == tenant)
            query = update(experience_namespaces).where(is_this).values(bytes_max=bytes_max)
            connection.execute(query)
            return _get(driver_of(connection), namespace, tenant)

        return await self._writer.run(work)

    async def grant(
        self,
        namespace: NamespaceId,
        principal: PrincipalId,
        right: Right | None,
        *,
        tenant: TenantId,
        by: str,
        now_ms: int,
    ) -> Namespace:
        """Return the namespace with that right for `principal`; None takes away what it had.

        Raises:
            NamespaceNotFoundError: the tenant has no such one.
        """
        checked_names(principal=principal)

        def work(connection: Connection) -> Namespace:
            driver = driver_of(connection)
            _get(driver, namespace, tenant)
            is_this = (_grants.namespace == namespace) & (_grants.principal == principal)
            connection.execute(delete(experience_grants).where(is_this))
            if right is not None:
                row = {"namespace": namespace, "principal": principal, "right": right.value}
                noted = {"granted_by": by, "granted_at_ms": now_ms}
                connection.execute(insert(experience_grants), {**row, **noted})
            return _get(driver, namespace, tenant)

        return await self._writer.run(work)

    async def list(self, *, tenant: TenantId, after: str = "") -> tuple[Namespace, ...]:
        """Return the tenant's namespaces after that id in its order, at most `LISTED_MAX`."""
        query = (
            select(*_COLUMNS)
            .where(_spaces.tenant == tenant, _spaces.namespace > after)
            .order_by(_spaces.namespace)
            .limit(LISTED_MAX)
        )

        return await self._reader.run(lambda connection: _listed(connection, query))

    async def granted_to(
        self, principal: PrincipalId, *, tenant: TenantId, after: str = ""
    ) -> tuple[Namespace, ...]:
        """Return namespaces after that id in which a principal, or everybody, was granted a right.

        They are in the order of their ids, at most `LISTED_MAX`.
        """
        granted = select(_grants.namespace).where(_grants.principal.in_((principal, EVERYBODY)))
        query = (
            select(*_COLUMNS)
            .where(_spaces.tenant == tenant, _spaces.namespace > after)
            .where(_spaces.namespace.in_(granted))
            .order_by(_spaces.namespace)
            .limit(LISTED_MAX)
        )
        return await self._reader.run(lambda connection: _listed(connection, query))

    async def usage(self, *, tenant: TenantId) -> tuple[NamespaceUsage, ...]:
        """Return how much the tenant keeps, by namespace and lane."""
        totals = experience_totals.c
        query = (
            select(totals.namespace, totals.lane, totals["items"], totals.content_bytes)
            .where(totals.tenant == tenant, totals["items"] > 0)
            .order_by(totals.namespace, totals.lane)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(
            NamespaceUsage(
                namespace=NamespaceId(namespace),
                lane=TrustLane(lane),
                items=items,
                content_bytes=content_bytes,
            )
            for namespace, lane, items, content_bytes in rows
        )


def _listed(connection: Connection, query: Select[Any]) -> tuple[Namespace, ...]:
    rows = connection.execute(query).all()
    return tuple(_namespace(driver_of(connection), tuple(row)) for row in rows)


def _found(driver: Driver, asked: dict[str, Any]) -> Namespace | None:
    row = _FIND.row(driver, asked)
    return None if row is None else _namespace(driver, row)


def _get(driver: Driver, namespace: NamespaceId, tenant: TenantId) -> Namespace:
    row = _GET.row(driver, {"tenant": tenant, "namespace": namespace})
    if row is None:
        raise NamespaceNotFoundError
    return _namespace(driver, row)


def _namespace(driver: Driver, row: Sequence[Any]) -> Namespace:
    namespace, tenant, name, owner, bytes_max = row
    grants = _GRANTS.rows(driver, {"namespace": namespace})
    return Namespace(
        namespace=NamespaceId(namespace),
        tenant=TenantId(tenant),
        name=name,
        owner=PrincipalId(owner) if owner else None,
        grants=tuple(
            Grant(principal=PrincipalId(principal), right=Right(right))
            for principal, right in grants
        ),
        bytes_max=bytes_max,
    )
