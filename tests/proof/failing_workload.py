"""A tenant's few calls, played while one database operation after the other fails."""

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from proof.facts import Key, check
from proof.failing_driver import Driver, Failure
from proof.stores import SqlStage
from proof.values import CALLS, COST, budget_of, chain_of, record_for, request_of, usage_of

from governor.amounts import Unit
from governor.errors import InvalidTransitionError
from governor.events import Replayed, Reserved
from governor.reservation import Reservation
from governor.scope import ScopeKind
from memory_store.errors import StoreError, StoreUnavailableError

T = TypeVar("T")

LIMIT = 1_000
HELD, USED = {COST: 30, CALLS: 1}, {COST: 7, CALLS: 1}
TRIES_MAX = 5
SCOPES = (ScopeKind.TENANT, ScopeKind.AGENT, ScopeKind.SESSION)


def reservation_of(decision: Reserved | Replayed) -> Reservation:
    return decision.reservation if isinstance(decision, Reserved) else decision.original


@dataclass
class Workload:
    """Each step is tried until the store says that it is done.

    What the tenant owes in the end is the same whatever failed on the way: no step may
    count twice, none may be lost once it was acknowledged.
    """

    stage: SqlStage
    tenant: str
    now_ms: int
    at_once: int
    refused: list[StoreError] = field(default_factory=list)

    @property
    def charged(self) -> dict[Unit, int]:
        settled = self.at_once + 1
        return {COST: USED[COST] * settled + HELD[COST], CALLS: settled + 1}

    async def run(self) -> None:
        for scope in SCOPES:
            limits = {COST: LIMIT, CALLS: 100}
            budget = budget_of(f"{self.tenant}_{scope}", self.tenant, scope, limits)
            await self._until_done(lambda budget=budget: self.stage.put_budget(budget))
        await self._call("alone", self._settle)
        await self._call("refused", self._release)
        async with anyio.create_task_group() as group:
            for number in range(self.at_once):
                group.start_soon(self._call, f"together_{number}", self._settle)
        await self._call("forgotten", None)
        ledger = self.stage.ledger
        await self._until_done(lambda: ledger.expire_due(now_ms=self.now_ms + 2_000))

    async def _call(
        self, name: str, end: Callable[[Reservation], Awaitable[object]] | None
    ) -> None:
        ledger, tries = self.stage.ledger, itertools.count()
        chain = chain_of(self.tenant, f"agent_{self.tenant}", f"session_{self.tenant}")

        async def admit() -> Reservation:
            # A retry has ids of its own and the key of the first try.
            asked = request_of(
                f"{self.tenant}_{name}_{next(tries)}",
                chain,
                HELD,
                now_ms=self.now_ms,
                expires_at_ms=self.now_ms + 1_000,
                turn=f"turn_{name}",
                key=(f"{self.tenant}_{name}", "hash"),
            )
            decision = await ledger.admit(asked)
            assert isinstance(decision, Reserved | Replayed), decision
            return reservation_of(decision)

        held = await self._until_done(admit)
        assert held is not None
        await self._until_done(lambda: ledger.forward(held.reservation_id))
        if end is not None:
            await self._until_done(lambda: end(held))

    async def _settle(self, held: Reservation) -> object:
        usage = usage_of(USED)
        record = record_for(held.call_id, held.chain, ended_at_ms=self.now_ms, usage=usage)
        return await self.stage.ledger.settle(held.reservation_id, usage, record)

    async def _release(self, held: Reservation) -> object:
        record = record_for(held.call_id, held.chain, ended_at_ms=self.now_ms, usage=None)
        return await self.stage.ledger.release(held.reservation_id, record)

    async def _until_done(self, act: Callable[[], Awaitable[T]]) -> T | None:
        for _ in range(TRIES_MAX):
            try:
                return await act()
            except StoreUnavailableError as error:
                self.refused.append(error)
            except InvalidTransitionError:
                # Right only if an earlier try was stored and not said.
                assert self.refused
                return None
        message = "one failure kept the store from working for good"
        raise AssertionError(message)


async def fail_each(stage: SqlStage, driver: Driver, failure: Failure, *, at_once: int = 2) -> int:
    """Play until a workload is passed untouched; return how many failures that took.

    After each, the books are right and the process goes on.
    """
    for position in itertools.count(1):
        name = f"{failure.name.lower()}{position}"
        workload = Workload(stage, name, now_ms=position * 10_000, at_once=at_once)
        driver.arm(position, failure)
        await workload.run()
        failed = driver.failed
        driver.arm(None, failure)
        await _judge(stage, workload, failed)
        if failed is None:
            return position - 1
    raise AssertionError


async def _judge(stage: SqlStage, workload: Workload, failed: str | None) -> None:
    facts = await stage.facts(workload.tenant)
    check(facts)
    for scope in SCOPES:
        subject = workload.tenant if scope == "tenant" else f"{scope}_{workload.tenant}"
        for unit, wanted in workload.charged.items():
            key = Key(f"{workload.tenant}_{scope}", subject, unit.value, 0)
            standing = facts.standing(key)
            assert (standing.settled, standing.reserved) == (wanted, 0), (failed, key)
