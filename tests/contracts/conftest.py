"""The ledgers that the contract holds for, each with a way to set its stage.

The one of a worker is reached over a socket, as between two processes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pytest
from contracts.builders import COST, TENANT

from governor.amounts import Amounts, Unit
from governor.budget import Budget
from governor.ids import BudgetId, SessionId, TenantId
from memory_store.accounts import BalanceView
from memory_store.audit import Actor
from memory_store.budgets import quota_id
from memory_store.engine import Durability
from memory_store.errors import AlreadyExistsError
from memory_store.ledger import SqlLedger
from memory_store.store import Store, open_store
from memory_store.testing import MemoryLedger
from runtime.clock import SystemClock
from runtime.link.books import OPERATIONS, books_of, remote_store
from runtime.link.client import Link
from runtime.link.house import House
from runtime.link.server import LinkServer

ADMIN = Actor(name="root")


class Stage(Protocol):
    """A ledger, and what an administrator does around it."""

    @property
    def ledger(self) -> SqlLedger | MemoryLedger: ...

    async def put_budget(self, budget: Budget) -> None: ...

    async def delete_budget(self, budget_id: BudgetId) -> None: ...

    async def put_quota(self, tenant: TenantId, limits: Amounts, template: Budget) -> None: ...

    async def close_session(self, session: SessionId) -> None: ...


@dataclass
class MemoryStage:
    ledger: MemoryLedger

    async def put_budget(self, budget: Budget) -> None:
        self.ledger.put_budget(budget)

    async def delete_budget(self, budget_id: BudgetId) -> None:
        del self.ledger.budgets[budget_id]

    async def put_quota(self, tenant: TenantId, limits: Amounts, template: Budget) -> None:
        quota = replace(template, budget_id=quota_id(tenant), limits=limits, is_quota=True)
        self.ledger.put_budget(quota)

    async def close_session(self, session: SessionId) -> None:
        self.ledger.close_session(session)


@dataclass
class SqlStage:
    store: Store

    @property
    def ledger(self) -> SqlLedger:
        return self.store.ledger

    async def put_budget(self, budget: Budget) -> None:
        await self._need_tenant(budget.tenant)
        await self.store.budgets.put(budget, expected_version=None, by=ADMIN, now_ms=0)

    async def delete_budget(self, budget_id: BudgetId) -> None:
        await self.store.budgets.delete(budget_id, by=ADMIN, now_ms=0)

    async def put_quota(self, tenant: TenantId, limits: Amounts, template: Budget) -> None:
        await self._need_tenant(tenant)
        await self.store.budgets.put_quota(
            tenant, limits=limits, window=template.window, by=ADMIN, now_ms=0
        )

    async def close_session(self, session: SessionId) -> None:
        await self.store.sessions.close(session, by=ADMIN, now_ms=0)

    async def _need_tenant(self, tenant: TenantId) -> None:
        try:
            await self.store.tenants.create(tenant, name=tenant, by=ADMIN, now_ms=0)
        except AlreadyExistsError:
            return


async def balance_of(stage: Stage, *, unit: Unit = COST, now_ms: int = 1_000) -> BalanceView:
    views = await stage.ledger.balances(tenant=TENANT, now_ms=now_ms)
    (view,) = (view for view in views if view.unit is unit)
    return view


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class WorkerStage(SqlStage):
    """What a worker does, beside the process that has the store."""

    at_worker: SqlLedger

    @property
    def ledger(self) -> SqlLedger:
        return self.at_worker


@asynccontextmanager
async def worker_stage(store: Store, folder: Path) -> AsyncIterator[WorkerStage]:
    house = House(clock=SystemClock(), idle_ms=1, gate=None)
    path = folder / "keeper.sock"
    async with LinkServer(OPERATIONS, books_of(store, house)).listening(path):
        link = Link(path, OPERATIONS, worker=1)
        async with link.connected():
            ledger = remote_store(link, bulk=link).ledger
            # Workers end no holds of others; whoever has the store does.
            ledger.expire_due = store.ledger.expire_due  # type: ignore[method-assign]
            yield WorkerStage(store, ledger)


@pytest.fixture(
    params=["memory", "sqlite", "worker", pytest.param("postgresql", marks=pytest.mark.slow)]
)
async def stage(
    request: pytest.FixtureRequest, tmp_path: Path, begun_state: Path
) -> AsyncIterator[Stage]:
    if request.param == "memory":
        yield MemoryStage(MemoryLedger())
        return
    url = request.getfixturevalue("database") if request.param == "postgresql" else None
    async with open_store(begun_state, url=url, durability=Durability.PROCESS) as store:
        if request.param != "worker":
            yield SqlStage(store)
            return
        async with worker_stage(store, tmp_path) as at_worker:
            yield at_worker
