"""What every ledger promises about turns, windows, sessions and keys."""

from dataclasses import replace

import anyio
import pytest
from contracts.builders import COST, SESSION, TENANT, budget, chain, record, request, used
from contracts.conftest import Stage, balance_of

from governor.amounts import Unit
from governor.call import CallStatus
from governor.denial import DenialReason, Denied
from governor.events import KeyReused, Replayed, Reserved
from governor.reservation import ReservationState
from governor.window import Fixed
from memory_store.errors import AlreadyExistsError, SessionOwnerError

pytestmark = pytest.mark.anyio


async def test_only_the_first_call_of_a_turn_pays_for_it(stage: Stage) -> None:
    await stage.put_budget(budget({Unit.TURNS: 2}))

    turns = ["t1", "t1", "t2", "t2", "t1"]
    decisions = [await stage.ledger.admit(request({}, turn=turn)) for turn in turns]
    third = await stage.ledger.admit(request({}, turn="t3"))

    assert all(isinstance(decision, Reserved) for decision in decisions)
    assert isinstance(third, Denied)
    assert (await balance_of(stage, unit=Unit.TURNS)).reserved == 2


async def test_the_same_turn_of_another_session_is_another_turn(stage: Stage) -> None:
    await stage.put_budget(budget({Unit.TURNS: 9}))

    await stage.ledger.admit(request({}, turn="t1"))
    await stage.ledger.admit(request({}, turn="t1", of=chain(session="ses_two")))

    assert (await balance_of(stage, unit=Unit.TURNS)).reserved == 2


async def test_a_released_call_keeps_its_turn(stage: Stage) -> None:
    await stage.put_budget(budget({Unit.TURNS: 1}))
    asked = request({}, turn="t1")
    await stage.ledger.admit(asked)

    await stage.ledger.release(asked.reservation_id, record(asked))

    assert (await balance_of(stage, unit=Unit.TURNS)).used == 1
    assert isinstance(await stage.ledger.admit(request({}, turn="t1")), Reserved)


async def test_a_turn_whose_first_call_never_left_stays_paid(stage: Stage) -> None:
    await stage.put_budget(budget({Unit.TURNS: 1}))
    await stage.ledger.admit(request({}, turn="t1"))
    await stage.ledger.expire_due(now_ms=10_000)

    decision = await stage.ledger.admit(request({}, turn="t1"))

    assert isinstance(decision, Reserved)
    assert decision.amount.of(Unit.TURNS) == 0


async def test_a_turns_budget_denies_a_call_whose_turn_is_unknown(stage: Stage) -> None:
    await stage.put_budget(budget({Unit.TURNS: 5}))

    decision = await stage.ledger.admit(request({COST: 1}))

    assert isinstance(decision, Denied)
    assert decision.reason is DenialReason.TURN_UNKNOWN


async def test_a_new_window_starts_with_nothing_used(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 10}, window=Fixed(60_000)))
    await stage.ledger.admit(request({COST: 10}, now_ms=59_999))
    denied = await stage.ledger.admit(request({COST: 10}, now_ms=59_999))

    decision = await stage.ledger.admit(request({COST: 10}, now_ms=60_000))

    assert isinstance(denied, Denied)
    assert denied.retry_after_ms == 1
    assert isinstance(decision, Reserved)


async def test_a_call_is_settled_in_the_window_that_admitted_it(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 10}, window=Fixed(60_000)))
    asked = request({COST: 10}, now_ms=59_999)
    await stage.ledger.admit(asked)
    await stage.ledger.admit(request({COST: 10}, now_ms=60_000))

    await stage.ledger.settle(
        asked.reservation_id, used({COST: 10}), record(asked, ended_at_ms=61_000)
    )

    assert (await balance_of(stage, now_ms=59_999)).used == 10
    later = await stage.ledger.balances(tenant=TENANT, now_ms=61_000)
    assert [(view.used, view.reserved) for view in later] == [(0, 10)]


async def test_a_closed_session_is_denied_and_another_is_not(stage: Stage) -> None:
    await stage.ledger.admit(request({COST: 1}))
    await stage.close_session(SESSION)

    closed = await stage.ledger.admit(request({COST: 1}))
    other = await stage.ledger.admit(request({COST: 1}, of=chain(session="ses_two")))

    assert isinstance(closed, Denied)
    assert closed.reason is DenialReason.SESSION_CLOSED
    assert isinstance(other, Reserved)


async def test_a_call_that_runs_when_its_session_is_closed_still_settles(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    asked = request({COST: 30})
    await stage.ledger.admit(asked)
    await stage.close_session(SESSION)

    await stage.ledger.settle(asked.reservation_id, used({COST: 12}), record(asked))

    assert (await balance_of(stage)).used == 12


async def test_the_session_of_another_agent_is_refused(stage: Stage) -> None:
    await stage.ledger.admit(request({COST: 1}))

    with pytest.raises(SessionOwnerError):
        await stage.ledger.admit(request({COST: 1}, of=chain(agent="bob")))


@pytest.mark.parametrize("reused", ["reservation_id", "call_id"])
async def test_ids_are_not_used_twice(stage: Stage, reused: str) -> None:
    await stage.put_budget(budget({COST: 100}))
    first, second = request({COST: 1}), request({COST: 1})
    await stage.ledger.admit(first)
    await stage.ledger.settle(first.reservation_id, used({COST: 1}), record(first))

    with pytest.raises(AlreadyExistsError):
        await stage.ledger.admit(replace(second, **{reused: getattr(first, reused)}))

    view = await balance_of(stage)
    assert (view.used, view.reserved) == (1, 0)


async def test_the_same_key_and_payload_answer_with_the_original(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    asked = request({COST: 30}, key=("k1", "h1"))
    await stage.ledger.admit(asked)
    await stage.ledger.settle(asked.reservation_id, used({COST: 12}), record(asked))

    again = await stage.ledger.admit(request({COST: 30}, key=("k1", "h1")))

    assert isinstance(again, Replayed)
    assert again.original.call_id == asked.call_id
    assert again.original.state is ReservationState.SETTLED
    view = await balance_of(stage)
    assert (view.used, view.reserved) == (12, 0)


async def test_the_same_key_with_another_payload_is_told_apart(stage: Stage) -> None:
    asked = request({COST: 30}, key=("k1", "h1"))
    await stage.ledger.admit(asked)

    again = await stage.ledger.admit(request({COST: 30}, key=("k1", "h2")))

    assert isinstance(again, KeyReused)
    assert again.original.reservation_id == asked.reservation_id


async def test_the_same_key_of_another_agent_is_another_key(stage: Stage) -> None:
    await stage.ledger.admit(request({COST: 30}, key=("k1", "h1")))

    bob = chain(agent="bob", session="ses_bob")
    decision = await stage.ledger.admit(request({COST: 30}, key=("k1", "h2"), of=bob))

    assert isinstance(decision, Reserved)


async def test_of_concurrent_calls_with_one_key_exactly_one_is_reserved(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    decisions: list[object] = []

    async def one() -> None:
        decisions.append(await stage.ledger.admit(request({COST: 1}, key=("k", "h"))))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(one)

    assert sum(isinstance(decision, Reserved) for decision in decisions) == 1
    assert sum(isinstance(decision, Replayed) for decision in decisions) == 19


async def test_a_key_whose_call_never_ran_can_be_used_again(stage: Stage) -> None:
    released, unforwarded = request({COST: 1}, key=("r", "h")), request({COST: 1}, key=("u", "h"))
    await stage.ledger.admit(released)
    await stage.ledger.forward(released.reservation_id)
    await stage.ledger.release(
        released.reservation_id, record(released, status=CallStatus.RELEASED)
    )
    await stage.ledger.admit(unforwarded)
    await stage.ledger.expire_due(now_ms=20_000)

    again = [await stage.ledger.admit(request({COST: 1}, key=(key, "h"))) for key in ("r", "u")]

    assert all(isinstance(decision, Reserved) for decision in again)


@pytest.mark.requirement("session.closed-denies")
async def test_a_hold_whose_session_was_ended_is_not_marked_and_can_be_released(
    stage: Stage,
) -> None:
    asked = request({COST: 1})
    await stage.put_budget(budget({COST: 1}))
    await stage.ledger.admit(asked)
    await stage.close_session(asked.chain.session)

    denied = await stage.ledger.forward(asked.reservation_id)
    released = await stage.ledger.release(
        asked.reservation_id, record(asked, status=CallStatus.DENIED)
    )

    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.SESSION_CLOSED
    assert [charge.charged for charge in released.charges] == [0]


@pytest.mark.requirement("overrun.is-recorded")
async def test_a_hold_that_is_overdue_while_its_call_runs_is_left_to_it(stage: Stage) -> None:
    asked, left = request({COST: 1}), request({COST: 1})
    await stage.put_budget(budget({COST: 100}))
    for one in (asked, left):
        await stage.ledger.admit(one)
        await stage.ledger.forward(one.reservation_id)

    ended = await stage.ledger.expire_due(
        now_ms=20_000, is_running=lambda running: running == asked.reservation_id
    )
    await stage.ledger.settle(asked.reservation_id, used({COST: 50}), record(asked))

    balance = await balance_of(stage)
    assert [one.reservation.reservation_id for one in ended] == [left.reservation_id]
    assert (balance.used, balance.reserved, balance.overrun) == (51, 0, 49)


async def test_a_key_whose_call_may_have_run_is_kept(stage: Stage) -> None:
    forwarded = request({COST: 1}, key=("f", "h"))
    await stage.ledger.admit(forwarded)
    await stage.ledger.forward(forwarded.reservation_id)
    await stage.ledger.expire_due(now_ms=20_000)

    again = await stage.ledger.admit(request({COST: 1}, key=("f", "h")))

    assert isinstance(again, Replayed)
