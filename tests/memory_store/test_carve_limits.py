"""What a sub-session may be carved out of: debts, windows that turn over, the past."""

import pytest
from contracts.builders import AGENT, SESSION, TENANT, budget, chain, record, request, used

from governor.amounts import Amounts, Unit
from governor.budget import Overdraft
from governor.denial import DenialReason, Denied
from governor.events import Reserved
from governor.ids import ReservationId, SessionId
from governor.scope import ScopeChain
from governor.window import Sliding
from memory_store.audit import Actor
from memory_store.carves import SpawnRequest
from memory_store.store import Store

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")
BELOW = SessionId("ses_below")


def _spawn(calls: int, *, now_ms: int = 1_000) -> SpawnRequest:
    return SpawnRequest(
        tenant=TENANT,
        agent=AGENT,
        parent=SESSION,
        parent_name="one",
        session_id=BELOW,
        name="below",
        reservation_id=ReservationId("res_carve"),
        limits=Amounts({Unit.TOOL_CALLS: calls}),
        now_ms=now_ms,
    )


async def _ran_below(store: Store, *, now_ms: int) -> bool:
    asked = request(
        {Unit.TOOL_CALLS: 1}, of=chain(session=BELOW), now_ms=now_ms, expires_at_ms=now_ms + 1_000
    )
    if not isinstance(await store.ledger.admit(asked), Reserved):
        return False
    usage = used({Unit.TOOL_CALLS: 1})
    await store.ledger.settle(
        asked.reservation_id, usage, record(asked, ended_at_ms=now_ms, usage=usage)
    )
    return True


@pytest.mark.requirement("sub-session.within-parent")
async def test_a_debt_that_one_call_may_make_cannot_be_carved_out(store: Store) -> None:
    owing = budget({Unit.TOOL_CALLS: 3}, overdraft=Overdraft.ALLOW_AND_DEBT)
    await store.budgets.create(owing, by=ADMIN, now_ms=1)

    denied = await store.ledger.spawn(_spawn(4))

    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.BUDGET_EXHAUSTED
    assert isinstance(await store.ledger.spawn(_spawn(3)), ScopeChain)


@pytest.mark.requirement("sub-session.within-parent")
async def test_below_a_sliding_window_calls_go_on_as_parts_of_it_turn_over(store: Store) -> None:
    sliding = budget({Unit.TOOL_CALLS: 5}, window=Sliding(length_ms=10_000, buckets=10))
    await store.budgets.create(sliding, by=ADMIN, now_ms=1)
    assert isinstance(await store.ledger.spawn(_spawn(8)), ScopeChain)

    in_one_window = [await _ran_below(store, now_ms=at) for at in range(2_000, 9_000, 1_000)]
    later = [await _ran_below(store, now_ms=at) for at in range(30_000, 35_000, 1_000)]

    assert in_one_window == [True] * 5 + [False] * 2
    assert later == [True] * 3 + [False] * 2
    assert await store.breaches() == []


async def test_nothing_is_carved_out_after_the_clock_stepped_back(store: Store) -> None:
    await store.budgets.create(budget({Unit.TOOL_CALLS: 5}), by=ADMIN, now_ms=1)
    await store.ledger.admit(request({Unit.TOOL_CALLS: 1}, now_ms=90_000, expires_at_ms=95_000))

    denied = await store.ledger.spawn(_spawn(1, now_ms=1_000))

    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.CLOCK_STEPPED_BACK
