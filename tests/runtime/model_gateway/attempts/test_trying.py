"""A call's attempts at one provider: how many, with which key, and when they end."""

from collections.abc import Iterable

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.providing.failure import Cause, Failure, failure_of, failure_of_status
from governor.providing.key_ring import KeyState
from governor.providing.recourse import AnotherTier, GiveUp, NewHold
from governor.retrying import RetryTerms, Sent
from runtime.model_gateway.attempts.care import ProviderCare
from runtime.model_gateway.attempts.trying import AttemptEnd, Tried, tried
from tests.runtime.model_gateway.attempts.makers import NO_PAUSE, StillClock, a_care

pytestmark = pytest.mark.anyio

WELL = None


class Script:
    """A provider that fails as it was told to, and then answers."""

    def __init__(self, ends: Iterable[Failure | None]) -> None:
        self._ends = iter(ends)
        self.keys: list[int] = []
        self.pauses: list[int] = []

    async def ask(self, key: int, _left_ms: int) -> AttemptEnd:
        self.keys.append(key)
        return AttemptEnd(failure=next(self._ends, WELL), tokens=5)

    async def pause(self, pause_ms: int) -> None:
        self.pauses.append(pause_ms)


async def asked(care: ProviderCare, script: Script, **terms: int) -> Tried:
    with anyio.fail_after(60):
        return await tried(
            care,
            script.ask,
            clock=StillClock(),
            pause=script.pause,
            tokens=terms.get("tokens", 10),
            time_ms=terms.get("time_ms", 60_000),
            wished=terms.get("wished"),
        )


async def test_a_call_that_goes_well_is_made_once() -> None:
    script = Script([])

    assert await asked(a_care(), script) == Tried(key=0, made=1, rounds=1)


async def test_a_refusal_is_tried_again_within_the_same_hold() -> None:
    script = Script([failure_of(Cause.OVERLOADED), failure_of(Cause.UNREACHED)])

    assert await asked(a_care(), script) == Tried(key=0, made=3, rounds=3)


async def test_what_may_have_been_billed_is_not_tried_again_within_the_same_hold() -> None:
    for is_repeatable, recourse in ((False, AnotherTier()), (True, NewHold(pause_ms=0))):
        script = Script([failure_of(Cause.FAILED)])

        end = await asked(a_care(is_repeatable=is_repeatable), script)

        assert (end.recourse, end.made, script.keys) == (recourse, 1, [0])


async def test_a_key_that_is_limited_gives_way_to_the_next_at_once() -> None:
    script = Script([failure_of(Cause.RATE_LIMITED, retry_after_ms=30_000)])
    care = a_care("A", "B")

    end = await asked(care, script)

    assert (end.failure, end.key, script.keys) == (WELL, 1, [0, 1])
    states = [key["state"] for key in care.shown()["keys"]]
    assert states == [KeyState.RESTING, KeyState.READY]


async def test_a_key_that_is_refused_is_left_out_of_later_calls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    care = a_care("KEY_A", "KEY_B")
    await asked(care, Script([failure_of_status(401)]))
    later = Script([])
    for _ in range(3):
        await asked(care, later)

    assert later.keys == [1, 1, 1]
    assert "refused the key that KEY_A holds" in caplog.text


async def test_when_all_keys_rest_the_call_fails_with_the_earliest_time() -> None:
    care = a_care("A", "B")
    limited = [
        failure_of(Cause.RATE_LIMITED, retry_after_ms=30_000),
        failure_of(Cause.RATE_LIMITED, retry_after_ms=20_000),
    ]
    first = await asked(care, Script(limited))
    second_script = Script([])
    second = await asked(care, second_script)

    assert (first.made, first.recourse) == (2, AnotherTier())
    assert second.failure == failure_of(Cause.KEYS_RESTING, retry_after_ms=20_000)
    assert second_script.keys == []


async def test_when_every_key_was_refused_the_call_says_so_without_asking() -> None:
    care = a_care("A")
    await asked(care, Script([failure_of_status(401)]))
    await asked(care, Script([failure_of_status(401)]))  # the one trial of this half minute
    script = Script([])

    end = await asked(care, script)

    assert (end.failure, script.keys) == (failure_of(Cause.KEY_REFUSED), [])
    assert not care.is_fit


async def test_a_mistake_of_the_client_is_nobodys_to_try_again() -> None:
    script = Script([failure_of_status(400)])

    end = await asked(a_care("A", "B"), script)

    assert (end.recourse, end.made) == (GiveUp(), 1)


async def test_a_call_that_is_cancelled_frees_its_key() -> None:
    care = a_care("A")
    is_asked = anyio.Event()

    async def hang(_key: int, _left_ms: int) -> AttemptEnd:
        is_asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                script = Script([])
                await tried(
                    care, hang, clock=StillClock(), pause=script.pause, tokens=1, time_ms=1_000
                )

            tasks.start_soon(call)
            await is_asked.wait()
            tasks.cancel_scope.cancel()

    assert [key["in_flight"] for key in care.shown()["keys"]] == [0]


async def test_a_storm_of_refusals_does_not_multiply() -> None:
    care = a_care(retry=NO_PAUSE, retries_max=5)
    script = Script(failure_of(Cause.OVERLOADED) for _ in range(10_000))

    for _ in range(100):
        care.note_call()
        await asked(care, script)

    assert len(script.keys) <= 100 + 5 + 20


FAILURES = st.sampled_from([failure_of(cause) for cause in Cause]) | st.builds(
    Failure,
    cause=st.sampled_from(list(Cause)),
    sent=st.just(Sent.UNKNOWN),
    retry_after_ms=st.none() | st.integers(min_value=0, max_value=10**7),
)


@given(st.lists(FAILURES | st.none(), max_size=12), st.integers(min_value=0, max_value=4))
def test_no_call_asks_more_often_than_it_may_and_none_goes_on_after_what_may_be_billed(
    ends: list[Failure | None], retries: int
) -> None:
    script = Script(ends)
    care = a_care("A", "B", retry=RetryTerms(retries=retries, pause_ms=0, pause_ms_max=0))

    end = anyio.run(asked, care, script)

    assert len(script.keys) <= 1 + retries
    assert end.made == len(script.keys)
    before_last = ends[: len(script.keys) - 1]
    assert all(one is not None and one.proves_nothing_generated for one in before_last)
    assert sum(key["in_flight"] for key in care.shown()["keys"]) == 0
