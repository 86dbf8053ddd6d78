"""Calls that are stopped or left alone on their way, and what they cost then."""

from dataclasses import replace

import anyio
import pytest

from governor.amounts import Amounts, Unit
from governor.call import CallStatus
from governor.events import Released, Settled
from governor.flow.policy import FlowPolicy
from governor.ids import SessionId
from governor.usage import Usage
from tests.governor.makers import budget
from tests.tool_gateway.makers import CHAIN, RULE, FakeBackend, House, a_call
from tool_gateway.results import Outcome

pytestmark = pytest.mark.anyio

CALLS = budget("calls", tool_calls=10)
MONEY = budget("money", cost_microusd=100)
WALL = budget("wall", wall_ms=50_000)


async def never_answer() -> Outcome:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.requirement("cancel.is-settled")
async def test_a_cancelled_call_is_settled_at_its_estimate() -> None:
    house = House(CALLS, MONEY, budget("cpu", cpu_ms=100), behave=never_answer)
    house.backend.unmeasurable = {}
    rule = replace(RULE, estimate_cpu_ms=40)
    house.policy = replace(house.policy, rules=(rule,))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.run)
            await house.backend.started.wait()
            tasks.cancel_scope.cancel()

    assert isinstance(house.ended, Settled)
    assert house.ledger.remaining() == 9
    assert house.ledger.remaining(Unit.CPU_MS) == 60
    assert house.record.status is CallStatus.CANCELLED
    assert len(house.running) == 0


@pytest.mark.requirement("cancel.is-settled")
async def test_a_client_that_leaves_during_settlement_cannot_stop_it() -> None:
    house = House(CALLS)
    house.ledger.may_settle = anyio.Event()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.run)
            await house.ledger.settling.wait()
            tasks.cancel_scope.cancel()
            house.ledger.may_settle.set()

    assert isinstance(house.ended, Settled)


@pytest.mark.requirement("cancel.is-settled")
async def test_a_call_cancelled_before_its_mark_is_stored_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What the call will show is kept between the hold and its mark.
    house = House(CALLS, flow=FlowPolicy(rules=()))
    marking = anyio.Event()

    async def never_marked(*_: object, **__: object) -> None:
        marking.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(house.ledger, "forward", never_marked)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.run)
            await marking.wait()
            tasks.cancel_scope.cancel()

    assert house.backend.ran == []
    assert isinstance(house.ended, Released)
    assert house.ledger.remaining() == 10


@pytest.mark.requirement("session.closed-denies")
async def test_what_was_measured_before_a_call_was_stopped_is_what_it_is_charged() -> None:
    house = House(budget("cpu", cpu_ms=10_000), behave=never_answer)
    house.backend.unmeasurable = {}
    house.backend.measured = Usage(measured=Amounts({Unit.CPU_MS: 7}))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.run)
            await house.backend.started.wait()
            house.running.stop_all(why="the end")

    assert house.ledger.remaining(Unit.CPU_MS) == 10_000 - 7


async def test_ending_a_session_stops_its_calls_and_settles_them() -> None:
    house = House(CALLS, behave=never_answer)
    neighbour = FakeBackend(never_answer)
    other = replace(a_call("call_other"), chain=replace(CHAIN, session=SessionId("ada/two")))
    results = []

    async def run() -> None:
        results.append(await house.run(a_call("call_a")))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await house.backend.started.wait()
            house.backend = neighbour
            tasks.start_soon(house.run, other)
            await neighbour.started.wait()

            stopped = house.running.stop_session(CHAIN.session, why="ended by root")
            await house.ledger.settling.wait()
            still_running = len(house.running)
            tasks.start_soon(stop_later, house)

    assert stopped == 1
    assert still_running == 1
    assert results[0].is_error
    assert "ended by root" in results[0].sole_text
    assert house.ledger.remaining() == 8
    assert {record.status for record in house.ledger.records} == {CallStatus.CANCELLED}


async def stop_later(house: House) -> None:
    assert house.running.stop_all(why="shutdown") == 1
