"""Calls that are stopped or left alone on their way, and what they cost then."""

from dataclasses import replace

import anyio
import pytest

from governor.admission import AdmissionRequest
from governor.amounts import Amounts, Unit
from governor.call import CallStatus
from governor.events import Released, Settled
from governor.flow.policy import FlowPolicy
from governor.ids import SessionId
from governor.usage import Usage
from tests.governor.makers import budget
from tests.tool_gateway.makers import CHAIN, RULE, FakeBackend, House, a_call
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError
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

    with anyio.fail_after(60):
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

    with anyio.fail_after(60):
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
    with anyio.fail_after(60):
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

    with anyio.fail_after(60):
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

    with anyio.fail_after(60):
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


async def leave_while(house: House, reached: anyio.Event) -> None:
    """Run a call whose client goes away at that moment."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.run)
            await reached.wait()
            tasks.cancel_scope.cancel()


def hold_and_hang(house: House, monkeypatch: pytest.MonkeyPatch) -> anyio.Event:
    """Have the ledger hold the estimate and never say so; return what tells that it is held."""
    admit, held = house.ledger.admit, anyio.Event()

    async def unheard(request: AdmissionRequest) -> object:
        await admit(request)
        held.set()
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(house.ledger, "admit", unheard)
    return held


@pytest.mark.requirement("cancel.before-leaving-is-released")
async def test_a_client_that_leaves_while_its_admission_commits_is_charged_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(CALLS, MONEY)
    held = hold_and_hang(house, monkeypatch)

    await leave_while(house, held)

    assert house.backend.ran == []
    assert len(house.ledger.forwarded) == 1  # its mark was stored with the hold
    assert isinstance(house.ended, Released)
    assert (house.ledger.remaining(), house.ledger.remaining(Unit.COST_MICROUSD)) == (10, 100)
    assert house.record.status is CallStatus.CANCELLED


@pytest.mark.requirement("cancel.before-leaving-is-released")
async def test_a_release_that_hangs_keeps_nobody_and_leaves_the_hold_to_its_expiry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(CALLS)
    held = hold_and_hang(house, monkeypatch)

    async def hang(*_: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(house.ledger, "release", hang)
    monkeypatch.setattr("tool_gateway.books.SETTLE_SECONDS_MAX", 0.01)

    await leave_while(house, held)

    assert house.ledger.remaining() == 9
    assert house.ledger.records == []


@pytest.mark.requirement("cancel.before-leaving-is-released")
async def test_an_admission_of_which_nobody_knows_is_denied_and_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(CALLS)
    admit = house.ledger.admit

    async def lose_the_word(request: AdmissionRequest) -> object:
        await admit(request)
        raise LedgerUnavailableError

    monkeypatch.setattr(house.ledger, "admit", lose_the_word)

    result = await house.run()

    assert result.is_error
    assert house.backend.ran == []
    assert isinstance(house.ended, Released)
    assert house.ledger.remaining() == 10
    assert house.ledger.records[0].status is CallStatus.DENIED


async def test_what_the_ledger_turned_away_needs_no_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(CALLS)
    house.ledger.down, house.ledger.error = {"admit"}, LedgerOverloadedError

    async def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(house.ledger, "release", refuse)

    result = await house.run()

    assert "overloaded" in str(result.meta)


@pytest.mark.requirement("cancel.before-leaving-is-released")
@pytest.mark.parametrize("whoever", ["the client", "an administrator"])
async def test_a_call_that_is_stopped_between_its_admission_and_its_run_is_charged_nothing(
    whoever: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(CALLS)
    admit = house.ledger.admit

    with anyio.fail_after(60), anyio.CancelScope() as client:

        async def stop_at_once(request: AdmissionRequest) -> object:
            decision = await admit(request)
            if whoever == "the client":
                client.cancel()
            else:
                house.running.stop_all(why="the end")
            return decision

        monkeypatch.setattr(house.ledger, "admit", stop_at_once)
        await house.run()

    assert house.backend.ran == []
    assert isinstance(house.ended, Released)
    assert house.ledger.remaining() == 10
    assert house.record.status is CallStatus.CANCELLED
