"""Two sidecars ask the same person the same thing, and use the same answer."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from contracts.builders import COST, chain, request

from governor.amounts import Amounts
from governor.approval import Approval, ApprovalEvent, ApprovalState
from governor.denial import Denied
from governor.events import Reserved
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.store import Store, open_store
from tests.governor.makers import question

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

EVE = Actor(name="eve")
DUE_MS = 60_000
ROUNDS = 8


@pytest.fixture
async def stores(tmp_path: Path, database: str) -> AsyncIterator[tuple[Store, Store]]:
    async with AsyncExitStack() as stack:
        one, two = [
            await stack.enter_async_context(
                open_store(tmp_path / name, url=database, durability=Durability.PROCESS)
            )
            for name in ("one", "two")
        ]
        yield one, two


async def ask(store: Store, session: str) -> Approval:
    held = request({COST: 1}, of=chain(session=session), expires_at_ms=DUE_MS)
    await store.ledger.admit(held)
    return question(held, estimate=Amounts({COST: 1}), expires_at_ms=DUE_MS)


@pytest.mark.requirement("approval.used-once")
async def test_who_asks_and_takes_second_gets_what_the_first_one_made_of_it(
    stores: tuple[Store, Store],
) -> None:
    asked: list[set[str]] = []
    took: list[Reserved | Approval | Denied] = []

    with anyio.fail_after(60):
        for number in range(ROUNDS):
            stand: list[Approval] = []

            async def open_it(
                store: Store, session: str = f"ses_{number}", stand: list[Approval] = stand
            ) -> None:
                approval = await ask(store, session)
                stand.append(await store.approvals.open(approval, hold_expires_at_ms=DUE_MS))

            async def take_it(store: Store, stand: list[Approval] = stand) -> None:
                took.append(
                    await store.approvals.take(
                        stand[0].approval_id, now_ms=3_000, hold_expires_at_ms=DUE_MS
                    )
                )

            async with anyio.create_task_group() as tasks:
                for store in stores:
                    tasks.start_soon(open_it, store)
            asked.append({one.approval_id for one in stand})
            await stores[0].approvals.decide(
                stand[0].approval_id, ApprovalEvent.APPROVE, by=EVE, reason="", now_ms=2_000
            )
            async with anyio.create_task_group() as tasks:
                for store in stores:
                    tasks.start_soon(take_it, store)

    late = [one for one in took if isinstance(one, Approval)]
    assert [len(questions) for questions in asked] == [1] * ROUNDS
    assert sum(isinstance(one, Reserved) for one in took) == ROUNDS
    assert [one.state for one in late] == [ApprovalState.USED] * ROUNDS


@pytest.mark.requirement("approval.used-once")
async def test_two_who_give_up_what_is_overdue_give_it_up_once(
    stores: tuple[Store, Store],
) -> None:
    for number in range(50):
        await stores[0].approvals.open(
            await ask(stores[0], f"ses_{number}"), hold_expires_at_ms=DUE_MS
        )
    ended: list[int] = []

    async def expire(store: Store) -> None:
        ended.append(await store.approvals.expire_due(now_ms=DUE_MS))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for store in stores:
                tasks.start_soon(expire, store)

    assert sum(ended) == 50
