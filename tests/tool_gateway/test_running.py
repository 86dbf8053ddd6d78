import anyio
import pytest

from governor.ids import CallId, ReservationId, SessionId
from tool_gateway.running import RunningCalls

pytestmark = pytest.mark.anyio
ONE, TWO = SessionId("one"), SessionId("two")


async def test_a_call_is_in_the_list_only_while_it_runs() -> None:
    calls = RunningCalls()

    with calls.track(CallId("a"), ONE):
        inside = len(calls)

    assert (inside, len(calls)) == (1, 0)


async def test_a_call_that_fails_leaves_the_list_too() -> None:
    calls = RunningCalls()

    with pytest.raises(ZeroDivisionError), calls.track(CallId("a"), ONE):
        raise ZeroDivisionError

    assert len(calls) == 0


@pytest.mark.requirement("session.closed-denies")
async def test_stopping_a_session_stops_its_calls_and_no_others() -> None:
    calls = RunningCalls()

    with (
        calls.track(CallId("a"), ONE) as first,
        calls.track(CallId("b"), ONE) as second,
        calls.track(CallId("c"), TWO) as other,
        first.stoppable() as scope,
        other.stoppable() as other_scope,
    ):
        stopped = calls.stop_session(ONE, why="frozen")

    assert stopped == 2
    assert (first.stopped_why, second.stopped_why, other.stopped_why) == ("frozen", "frozen", None)
    assert scope.cancel_called
    assert not other_scope.cancel_called


async def test_a_call_that_was_stopped_between_two_waits_does_not_begin_the_second() -> None:
    calls = RunningCalls()

    with calls.track(CallId("a"), ONE) as call, anyio.fail_after(60):
        with call.stoppable():
            calls.stop_session(ONE, why="ended")
        with call.stoppable() as scope:
            await anyio.sleep_forever()

    assert scope.cancelled_caught


async def test_a_call_that_runs_by_anothers_id_leaves_the_other_in_the_list() -> None:
    calls = RunningCalls()

    with calls.track(CallId("asked"), ONE):
        with calls.track(CallId("retry"), ONE) as retry:
            retry.runs_on(CallId("asked"), ReservationId("res"))
            both = calls.freeze_session(ONE)
        one = calls.freeze_session(ONE)

    assert (both, one) == (["asked", "asked"], ["asked"])


async def test_the_last_call_to_end_wakes_whoever_waits_for_it() -> None:
    calls = RunningCalls()
    running, order = anyio.Event(), []

    async def run(name: str) -> None:
        with calls.track(CallId(name), ONE) as call:
            with call.stoppable():
                running.set()
                await anyio.sleep_forever()
            order.append(name)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "a")
            await running.wait()
            assert calls.stop_all(why="shutdown") == 1
            await calls.all_ended()
            order.append("waiter")

    assert order == ["a", "waiter"]


async def test_waiting_for_nothing_ends_at_once() -> None:
    with anyio.fail_after(60):
        await RunningCalls().all_ended()


@pytest.mark.requirement("session.frozen-sends-nothing")
async def test_a_session_is_known_to_be_frozen_while_it_has_calls_and_is_not_thawed() -> None:
    calls = RunningCalls()
    told = []

    with calls.track(CallId("a"), ONE):
        with calls.track(CallId("b"), ONE):
            calls.freeze_session(ONE)
            told.append((calls.is_session_frozen(ONE), calls.is_session_frozen(TWO)))
        told.append((calls.is_session_frozen(ONE), calls.freeze_session(TWO)))
        calls.thaw_session(ONE)
        told.append((calls.is_session_frozen(ONE), calls.is_session_frozen(TWO)))
        calls.freeze_session(ONE)

    assert told == [(True, False), (True, []), (False, False)]
    assert not calls.is_session_frozen(ONE)
