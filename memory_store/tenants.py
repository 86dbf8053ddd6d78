"""Tenants: the boundary of bills and of isolation."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, update

from governor.ids import TenantId
from memory_store.advisory import Duty, in_turn
from memory_store.audit import Actor, note
from memory_store.errors import AlreadyExistsError, NotFoundError
from memory_store.identities import Identities
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.tables import tenants
from memory_store.versions import check_version
from memory_store.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant; while it is disabled, no token of its principals is accepted."""

    tenant_id: TenantId
    name: str
    disabled: bool
    created_at_ms: int
    updated_at_ms: int
    version: int


class TenantBook:
    """Makes, changes and lists tenants."""

    def __init__(self, *, writer: Writer, reader: Reader, identities: Identities) -> None:
        self._writer = writer
        self._reader = reader
        self._identities = identities

    async def create(self, tenant_id: TenantId, *, name: str, by: Actor, now_ms: int) -> Tenant:
        """Return the new tenant.

        Raises:
            AlreadyExistsError: the id is taken.
        """

        def work(connection: Connection) -> Tenant:
            if _find(connection, tenant_id) is not None:
                message = f"there is a tenant {tenant_id} already"
                raise AlreadyExistsError(message)
            connection.execute(
                insert(tenants),
                {
                    "tenant_id": tenant_id,
                    "name": name,
                    "disabled": False,
                    "created_at_ms": now_ms,
                    "updated_at_ms": now_ms,
                    "version": 1,
                },
            )
            after = find_tenant(connection, tenant_id)
            _note(connection, "tenant.create", None, after, by=by, now_ms=now_ms)
            return after

        return await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    async def put(
        self,
        tenant_id: TenantId,
        *,
        name: str,
        disabled: bool = False,
        expected_version: int | None,
        by: Actor,
        now_ms: int,
    ) -> Tenant:
        """Return the tenant after the change.

        Raises:
            NotFoundError: there is no such tenant.
            VersionConflictError: it was changed since `expected_version`.
        """
        values = {"name": name, "disabled": disabled}
        return await self._change(
            tenant_id, values, expected_version=expected_version, by=by, now_ms=now_ms
        )

    async def disable(self, tenant_id: TenantId, *, by: Actor, now_ms: int) -> Tenant:
        """Accept no token of the tenant's principals any more.

        Raises:
            NotFoundError: there is no such tenant.
        """
        return await self._change(
            tenant_id, {"disabled": True}, expected_version=None, by=by, now_ms=now_ms
        )

    async def get(self, tenant_id: TenantId) -> Tenant:
        """Return the tenant.

        Raises:
            NotFoundError: there is no such tenant.
        """
        return await self._reader.run(lambda connection: find_tenant(connection, tenant_id))

    async def page(self, *, cursor: str | None = None, limit: int = 50) -> Page[Tenant]:
        """Return tenants by id."""
        limit = clamped(limit)
        query = select(tenants).order_by(tenants.c.tenant_id).limit(limit + 1)
        if cursor is not None:
            (after,) = key_of(cursor, kinds=(str,))
            query = query.where(tenants.c.tenant_id > after)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return page_of(rows, limit=limit, item=_view, key=lambda row: (row.tenant_id,))

    async def _change(
        self,
        tenant_id: TenantId,
        values: Mapping[str, object],
        *,
        expected_version: int | None,
        by: Actor,
        now_ms: int,
    ) -> Tenant:
        def work(connection: Connection) -> Tenant:
            before = find_tenant(connection, tenant_id)
            check_version(expected=expected_version, actual=before.version)
            connection.execute(
                update(tenants)
                .where(tenants.c.tenant_id == tenant_id)
                .values(**values, updated_at_ms=now_ms, version=before.version + 1)
            )
            after = find_tenant(connection, tenant_id)
            _note(connection, "tenant.put", before, after, by=by, now_ms=now_ms)
            return after

        return await self._writer.run(
            in_turn(Duty.ADMINISTRATION, work), after_commit=self._identities.forget_all
        )


def find_tenant(connection: Connection, tenant_id: TenantId) -> Tenant:
    """Return the tenant.

    Raises:
        NotFoundError: there is no such tenant.
    """
    found = _find(connection, tenant_id)
    if found is None:
        message = f"there is no tenant {tenant_id}"
        raise NotFoundError(message)
    return found


def _find(connection: Connection, tenant_id: TenantId) -> Tenant | None:
    row = connection.execute(select(tenants).where(tenants.c.tenant_id == tenant_id)).one_or_none()
    return None if row is None else _view(row)


def _view(row: Any) -> Tenant:
    return Tenant(**row._mapping)  # noqa: SLF001 - public, despite its name


def _note(
    connection: Connection,
    action: str,
    before: Tenant | None,
    after: Tenant,
    *,
    by: Actor,
    now_ms: int,
) -> None:
    note(
        connection,
        by=by,
        at_ms=now_ms,
        action=action,
        target=after.tenant_id,
        before=None if before is None else asdict(before),
        after=asdict(after),
    )
