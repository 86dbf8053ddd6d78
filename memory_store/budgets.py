"""Budgets and quotas, as administrators set them."""

from dataclasses import dataclass, replace

from sqlalchemy import Connection, insert, select, update

from governor.amounts import Amounts
from governor.budget import Budget
from governor.errors import InvalidBudgetError
from governor.ids import BudgetId, TenantId
from governor.scope import ScopeKind
from governor.window import Lifetime, Window
from memory_store.advisory import Duty, in_turn
from memory_store.audit import Actor, State, note
from memory_store.budget_rows import (
    BudgetView,
    budget_view,
    check_window,
    check_within_quota,
    find_budget,
    live_budget,
    quota_id,
)
from memory_store.errors import AlreadyExistsError, NotABudgetError, NotFoundError
from memory_store.live_budgets import LiveBudgets
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.rows import budget_columns
from memory_store.tables import budgets
from memory_store.tenants import find_tenant
from memory_store.turns import announce
from memory_store.versions import check_version
from memory_store.writer import Writer

__all__ = ["BudgetBook", "BudgetView", "quota_id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """Who changes what, and what for."""

    action: str
    by: Actor
    now_ms: int


class BudgetBook:
    """Makes, changes and lists budgets; a change governs the next admission."""

    def __init__(self, *, writer: Writer, reader: Reader, live: LiveBudgets) -> None:
        self._writer = writer
        self._reader = reader
        self._live = live

    async def create(self, budget: Budget, *, by: Actor, now_ms: int) -> BudgetView:
        """Return the new budget.

        Raises:
            AlreadyExistsError: the id is taken, be it by a retired budget.
            AboveQuotaError: a limit is above the tenant's quota.
            NotFoundError: there is no such tenant.
            NotABudgetError: it is a quota.
            InvalidBudgetError: its window is longer than ten years.
        """
        check_window(budget)
        change = _Change(action="budget.create", by=by, now_ms=now_ms)

        def work(connection: Connection) -> BudgetView:
            if find_budget(connection, budget.budget_id) is not None:
                message = f"there is, or was, a budget {budget.budget_id}"
                raise AlreadyExistsError(message)
            check_within_quota(connection, budget)
            return self._insert(connection, budget, change)

        return await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    async def put(
        self, budget: Budget, *, expected_version: int | None, by: Actor, now_ms: int
    ) -> BudgetView:
        """Return the budget after the change; without an expected version it may be new.

        A limit below what is used and held is accepted: it denies new calls.

        Raises:
            VersionConflictError: it was changed since `expected_version`.
            AboveQuotaError: a limit is above the tenant's quota.
            NotFoundError: there is no such budget or tenant.
            AlreadyExistsError: the id is that of a retired budget, or of another tenant's.
            NotABudgetError: it is a quota.
            InvalidBudgetError: its window is longer than ten years.
        """
        check_window(budget)
        change = _Change(action="budget.put", by=by, now_ms=now_ms)

        def work(connection: Connection) -> BudgetView:
            check_within_quota(connection, budget)
            return self._upsert(connection, budget, expected_version, change)

        return await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    async def delete(
        self,
        budget_id: BudgetId,
        *,
        expected_version: int | None = None,
        by: Actor,
        now_ms: int,
    ) -> None:
        """Retire the budget: it governs no new call, and holds on it still settle.

        Raises:
            NotFoundError: there is no such budget, or it is retired.
            VersionConflictError: it was changed since `expected_version`.
            NotABudgetError: it is a quota.
        """

        def work(connection: Connection) -> None:
            before = live_budget(connection, budget_id)
            if before.budget.is_quota:
                raise NotABudgetError
            check_version(expected=expected_version, actual=before.version)
            connection.execute(
                update(budgets)
                .where(budgets.c.budget_id == budget_id)
                .values(retired_at_ms=now_ms, updated_at_ms=now_ms, version=before.version + 1)
            )
            self._live.forget(before.budget.tenant)
            announce(connection, before.budget.tenant)
            note(
                connection,
                by=by,
                at_ms=now_ms,
                action="budget.delete",
                target=budget_id,
                before=_state(before),
                after=None,
            )

        await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    async def get(self, budget_id: BudgetId) -> BudgetView:
        """Return the budget.

        Raises:
            NotFoundError: there is no such budget, or it is retired.
        """
        return await self._reader.run(lambda connection: live_budget(connection, budget_id))

    async def page(
        self,
        *,
        tenant: TenantId | None = None,
        with_retired: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[BudgetView]:
        """Return budgets by id; quotas are among them."""
        limit = clamped(limit)
        query = select(budgets).order_by(budgets.c.budget_id).limit(limit + 1)
        if tenant is not None:
            query = query.where(budgets.c.tenant == tenant)
        if not with_retired:
            query = query.where(budgets.c.retired_at_ms.is_(None))
        if cursor is not None:
            (after,) = key_of(cursor, kinds=(str,))
            query = query.where(budgets.c.budget_id > after)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return page_of(rows, limit=limit, item=budget_view, key=lambda row: (row.budget_id,))

    async def get_quota(self, tenant: TenantId) -> BudgetView:
        """Return the quota of `tenant`.

        Raises:
            NotFoundError: it has none.
        """
        try:
            return await self.get(quota_id(tenant))
        except NotFoundError:
            raise NotFoundError("this tenant has no quota") from None

    async def put_quota(
        self,
        tenant: TenantId,
        *,
        limits: Amounts | None = None,
        window: Window | None = None,
        expected_version: int | None = None,
        by: Actor,
        now_ms: int,
    ) -> BudgetView:
        """Return the quota after the change; budgets that are now above it stay as they are.

        What is None stays as it is. The quota is the widest budget of every chain, so it governs
        calls itself.

        Raises:
            VersionConflictError: it was changed since `expected_version`.
            NotFoundError: there is no such tenant.
            InvalidBudgetError: its window is longer than ten years, or a first one has no limits.
        """
        change = _Change(action="quota.put", by=by, now_ms=now_ms)

        def work(connection: Connection) -> BudgetView:
            before = find_budget(connection, quota_id(tenant))
            quota = _quota(tenant, before, limits=limits, window=window)
            check_window(quota)
            if before is not None and before.budget == quota:
                check_version(expected=expected_version, actual=before.version)
                return before
            return self._upsert(connection, quota, expected_version, change)

        return await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    def _upsert(
        self,
        connection: Connection,
        budget: Budget,
        expected_version: int | None,
        change: _Change,
    ) -> BudgetView:
        before = find_budget(connection, budget.budget_id)
        if before is None:
            if expected_version is not None:
                message = f"there is no budget {budget.budget_id}"
                raise NotFoundError(message)
            return self._insert(connection, budget, change)
        if before.retired_at_ms is not None or before.budget.tenant != budget.tenant:
            message = f"the id {budget.budget_id} is, or was, that of another budget"
            raise AlreadyExistsError(message)
        check_version(expected=expected_version, actual=before.version)
        connection.execute(
            update(budgets)
            .where(budgets.c.budget_id == budget.budget_id)
            .values(
                **budget_columns(budget),
                updated_at_ms=change.now_ms,
                version=before.version + 1,
            )
        )
        return self._stored(connection, before, budget, change)

    def _insert(self, connection: Connection, budget: Budget, change: _Change) -> BudgetView:
        find_tenant(connection, budget.tenant)
        connection.execute(
            insert(budgets),
            {
                **budget_columns(budget),
                "retired_at_ms": None,
                "created_at_ms": change.now_ms,
                "updated_at_ms": change.now_ms,
                "version": 1,
            },
        )
        return self._stored(connection, None, budget, change)

    def _stored(
        self,
        connection: Connection,
        before: BudgetView | None,
        budget: Budget,
        change: _Change,
    ) -> BudgetView:
        """Return the budget as it now stands, noted and due to be read by the next admission."""
        after = live_budget(connection, budget.budget_id)
        self._live.forget(budget.tenant)
        announce(connection, budget.tenant)
        note(
            connection,
            by=change.by,
            at_ms=change.now_ms,
            action=change.action,
            target=budget.budget_id,
            before=None if before is None else _state(before),
            after=_state(after),
        )
        return after


def _quota(
    tenant: TenantId,
    before: BudgetView | None,
    *,
    limits: Amounts | None,
    window: Window | None,
) -> Budget:
    """Return the quota that is meant by what is given and what stood before.

    Raises:
        InvalidBudgetError: neither says its limits.
    """
    if before is not None:
        return replace(
            before.budget,
            limits=before.budget.limits if limits is None else limits,
            window=before.budget.window if window is None else window,
        )
    if limits is None:
        raise InvalidBudgetError("limits: is required, since there is no quota yet")
    return Budget(
        budget_id=quota_id(tenant),
        tenant=tenant,
        scope=ScopeKind.TENANT,
        subject=None,
        limits=limits,
        window=Lifetime() if window is None else window,
        is_quota=True,
    )


def _state(view: BudgetView) -> State:
    return {**budget_columns(view.budget), "version": view.version}
