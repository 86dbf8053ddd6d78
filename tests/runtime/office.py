"""A house whose rule asks a person, over the real store: the whole path but the upstream."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from governor.approval import Approval, ApprovalEvent, ApprovalState
from governor.policy import ApprovalTerms
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.identities import Role
from memory_store.store import Store, open_store
from runtime.adapters import StoreApprovals, StoreLedger
from tests.governor.makers import budget
from tests.tool_gateway.makers import CHAIN, RULE, House, a_call
from tool_gateway.contention import Contention
from tool_gateway.results import DENIAL_META, ToolResult

EVE = Actor(name="eve")
MINUTE_MS = 60_000


@dataclass
class Office:
    """A house whose rule asks a person, and the store behind it."""

    store: Store
    house: House

    async def call(self, *, key: str | None = None, **arguments: object) -> ToolResult:
        call = a_call(self.house.clock.fresh("call"), key=key, **arguments)
        return await self.house.run(call)

    async def answer(self, event: ApprovalEvent, *, reason: str = "") -> Approval:
        """Answer the one question that is open."""
        (pending,) = (await self.store.approvals.page(state=ApprovalState.PENDING)).items
        return await self.decide(pending, event, reason=reason)

    async def decide(self, asked: Approval, event: ApprovalEvent, *, reason: str = "") -> Approval:
        """Answer a question as the admin API does."""
        with anyio.CancelScope(shield=True):
            decided = await self.store.approvals.decide(
                asked.approval_id, event, by=EVE, reason=reason, now_ms=self.house.clock.now_ms()
            )
            await self.house.approver.follow(decided)
            return decided

    async def asked(self) -> None:
        """Return when a question is open."""
        while not (await self.store.approvals.page(state=ApprovalState.PENDING)).items:
            await anyio.lowlevel.checkpoint()

    async def held(self) -> int:
        (balance,) = await self.store.ledger.balances(tenant=CHAIN.tenant, now_ms=0)
        return balance.reserved

    async def used(self) -> int:
        (balance,) = await self.store.ledger.balances(tenant=CHAIN.tenant, now_ms=0)
        return balance.used


Opened = Callable[..., AbstractAsyncContextManager[Office]]


def opener(state_dir: Path) -> Opened:
    """Return what opens the same state directory each time, as a restarted sidecar would."""
    made: list[Office] = []

    @asynccontextmanager
    async def opened(
        *, wait_ms: int = 0, ttl_ms: int = MINUTE_MS, contention: Contention | None = None
    ) -> AsyncIterator[Office]:
        async with open_store(state_dir, durability=Durability.PROCESS) as store:
            if not made:
                await _founded(store)
            rule = replace(RULE, approval=ApprovalTerms(wait_ms=wait_ms, ttl_ms=ttl_ms))
            house = House(
                rule=rule,
                ledger=StoreLedger(ledger=store.ledger, calls=store.calls),
                desk=StoreApprovals(store.approvals),
                contention=contention,
                clock=made[-1].house.clock if made else None,
            )
            made.append(Office(store=store, house=house))
            yield made[-1]

    return opened


async def _founded(store: Store) -> None:
    await store.tenants.create(CHAIN.tenant, name="Acme", by=EVE, now_ms=1)
    await store.principals.create(
        CHAIN.agent, tenant=CHAIN.tenant, name="Ada", role=Role.AGENT, by=EVE, now_ms=1
    )
    calls = replace(budget("calls", tool_calls=10), tenant=CHAIN.tenant)
    await store.budgets.create(calls, by=EVE, now_ms=1)


def reason_of(result: ToolResult) -> str:
    assert result.is_error
    return str(result.meta[DENIAL_META]["reason"])
