"""Whatever database operation fails, the first, the second, and so on: no harm is done."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from governor.events import Replayed, Reserved
from governor.errors import InvalidTransitionError
from governor.scope import ScopeKind
from memory_store.errors import StoreError, StoreOverloadedError, StoreUnavailableError
from proof.facts import Key, check
from proof.failing_driver import Driver, Failure, failing_driver
from proof.stores import SqliteFactory, SqlStage
from proof.values import (
    CALLS,
    COST,
    budget_of,
    chain_of,
    record_for,
    request_of,
    usage_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

LIMIT = 1_000
HELD, USED = {COST: 30, CALLS: 1}, {COST: 7, CALLS: 1}


@dataclass
class Workload:
    """A tenant's few calls, each step tried until the store says that it is done.

    `charged` is what the tenant owes whatever failed on the way: no step may count twice.
    """

    stage: SqlStage
    tenant: str
    now_ms: int
    refused: list[StoreError] = field(default_factory=list)

    def steps(self) -> list[Callable[[], Awaitable[object]]]:
        return [self._budgets, self._settled, self._released, self._two_at_once, self._expired]

    charged = {COST: 7 + 7 + 7 + 30, CALLS: 4}

    async def run(self) -> None:
        for step in self.steps():
            await step()

    async def _budgets(self) -> None:
        for scope in ScopeKind:
            if scope in (ScopeKind.TENANT, ScopeKind.AGENT, ScopeKind.SESSION):
                limits = {COST: LIMIT, CALLS: 10}
                budget = budget_of(f"{self.tenant}_{scope}", self.tenant, scope, limits)
                await self._until_done(lambda budget=budget: self.stage.put_budget(budget))

    async def _settled(self) -> None:
        await self._call("one", self._settle)

    async def _released(self) -> None:
        await self._call("two", self._release)

    async def _two_at_once(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._call, "three", self._settle)
            group.start_soon(self._call, "four", self._settle)

    async def _expired(self) -> None:
        await self._call("five", None)
        await self._until_done(
            lambda: self.stage.ledger.expire_due(now_ms=self.now_ms + 2_000)
        )

    async def _call(
        self, name: str, end: Callable[[Reserved | Replayed], Awaitable[object]] | None
    ) -> None:
        chain = chain_of(self.tenant, f"agent_{self.tenant}", f"session_{self.tenant}")
        tries = itertools.count()

        async def admit() -> Reserved | Replayed:
            decision = await self.stage.ledger.admit(
                request_of(
                    f"{self.tenant}_{name}_{next(tries)}",
                    chain,
                    HELD,
                    now_ms=self.now_ms,
                    expires_at_ms=self.now_ms + 1_000,
                    turn=f"turn_{name}",
                    key=(f"{self.tenant}_{name}", "hash"),
                )
            )
            assert isinstance(decision, Reserved | Replayed), decision
            return decision

        decision = await self._until_done(admit)
        held = decision.reservation if isinstance(decision, Reserved) else decision.original
        await self._until_done(
            lambda: self.stage.ledger.forward(held.reservation_id, now_ms=self.now_ms)
        )
        if end is not None:
            await self._until_done(lambda: end(decision))

    async def _settle(self, decision: Reserved | Replayed) -> object:
        held = decision.reservation if isinstance(decision, Reserved) else decision.original
        usage = usage_of(USED)
        record = record_for(held.call_id, held.chain, ended_at_ms=self.now_ms, usage=usage)
        return await self.stage.ledger.settle(held.reservation_id, usage, record)

    async def _release(self, decision: Reserved | Replayed) -> object:
        held = decision.reservation if isinstance(decision, Reserved) else decision.original
        record = record_for(held.call_id, held.chain, ended_at_ms=self.now_ms, usage=None)
        return await self.stage.ledger.release(held.reservation_id, record)

    async def _until_done(self, act):
        for _ in range(5):
            try:
                return await act()
            except StoreUnavailableError as error:
                self.refused.append(error)
            except InvalidTransitionError:
                # Only right if an earlier try was stored and not said.
                assert self.refused
                return None
        raise AssertionError


@asynccontextmanager
async def _stage(tmp_path: Path) -> AsyncIterator[tuple[SqlStage, Driver]]:
    with failing_driver() as driver:
        async with SqliteFactory().open(tmp_path) as stage:
            yield stage, driver


async def _fail_each(
    stage: SqlStage, driver: Driver, failure: Failure, *, only_commits: bool = False
) -> int:
    """Run the workload until it is passed untouched; return how many failures that took."""
    for position in itertools.count(1):
        name = f"{failure.name.lower()}{position}"
        workload = Workload(stage, name, now_ms=position * 10_000)
        driver.arm(position, failure, only_commits=only_commits)
        await workload.run()
        failed = list(driver.failed_at)
        driver.arm(None, failure)
        await _judge(stage, workload, failed)
        if not failed:
            return position - 1
    raise AssertionError


async def _judge(stage: SqlStage, workload: Workload, failed: list[str]) -> None:
    facts = await stage.facts(workload.tenant)
    check(facts)
    for scope in ("tenant", "agent", "session"):
        subject = workload.tenant if scope == "tenant" else f"{scope}_{workload.tenant}"
        for unit, wanted in workload.charged.items():
            key = Key(f"{workload.tenant}_{scope}", subject, unit.value, 0)
            standing = facts.standing(key)
            assert (standing.settled, standing.reserved) == (wanted, 0), (failed, key)


@pytest.mark.requirement("proof.any-operation-may-fail")
@pytest.mark.parametrize("failure", list(Failure), ids=lambda failure: failure.name)
async def test_whatever_operation_fails_it_is_done_once_or_not_at_all(
    tmp_path: Path, failure: Failure
) -> None:
    async with _stage(tmp_path) as (stage, driver):
        survived = await _fail_each(stage, driver, failure)

    assert survived > 50
