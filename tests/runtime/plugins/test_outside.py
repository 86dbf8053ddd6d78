"""Guards and estimators of plug-ins on the path of real calls, also where they fail."""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import anyio
import pytest

from governor.policy import ApprovalTerms
from runtime.plugins import Allow, Ask, Deny, SeenCall, SeenResult, Verdict
from runtime.plugins.failing import FAILURES_MAX, REST_MS
from runtime.plugins.loading import Group, Plugin
from runtime.plugins.outside import PluggedOutside, Terms
from tests.governor.makers import budget
from tests.tool_gateway.makers import RULE, FakeClock, House, a_call
from tool_gateway.results import DENIAL_META, ToolResult

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("plugins.contained")]
SECONDS_MAX = 60


class Asked:
    """A guard that answers as it is told, and notes what it has seen."""

    def __init__(self, answer: Callable[[SeenCall], Verdict]) -> None:
        self.answer = answer
        self.before_calls: list[SeenCall] = []
        self.after_calls: list[tuple[SeenCall, SeenResult]] = []

    async def before(self, call: SeenCall) -> Verdict:
        self.before_calls.append(call)
        return self.answer(call)

    async def after(self, call: SeenCall, result: SeenResult) -> None:
        self.after_calls.append((call, result))


class Expecting:
    """An estimator that answers as it is told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.held: Mapping[str, int] = {}
        self.times = 0

    async def estimate(self, call: SeenCall, held: Mapping[str, int]) -> Any:
        self.held, self.times = held, self.times + 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def outside(
    clock: FakeClock, *made: object, failing_denies: bool = True, timeout_ms: int = 30_000
) -> PluggedOutside:
    plugins = [
        Plugin(
            name=f"plug-{number}",
            group=Group.ESTIMATOR if hasattr(one, "estimate") else Group.GUARD,
            package="a 1.0",
            made=None if isinstance(one, str) else one,
            fault=one if isinstance(one, str) else "",
        )
        for number, one in enumerate(made)
    ]
    terms = Terms(
        timeout_ms=timeout_ms,
        failing_denies=failing_denies,
        approval=ApprovalTerms(wait_ms=0, ttl_ms=60_000),
    )
    return PluggedOutside(plugins, terms, clock=clock)


def house(*made: object, **more: Any) -> House:
    clock = FakeClock()
    return House(budget(cost_microusd=1_000), clock=clock, outside=outside(clock, *made, **more))


def denial(result: ToolResult) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", result.meta[DENIAL_META])


class WordlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class OwnEnd(BaseException):
    pass


ODD = [WordlessError(), OwnEnd("its own"), KeyboardInterrupt(), asyncio.CancelledError()]


def raising(error: BaseException) -> Callable[[SeenCall], Verdict]:
    def answer(_: SeenCall) -> Verdict:
        raise error

    return answer


@pytest.mark.requirement("plugins.guards")
async def test_a_guard_sees_a_call_before_it_runs_and_what_came_of_it() -> None:
    guard = Asked(lambda _: Allow())
    place = house(guard)

    result = await place.run(a_call("call_1", text="hello"))

    assert not result.is_error
    (seen,) = guard.before_calls
    assert (seen.call_id, seen.upstream, seen.rule) == ("call_1", "files", RULE.name)
    assert seen.arguments == {"text": "hello"}
    ((after, found),) = guard.after_calls
    assert after.call_id == "call_1"
    assert (found.is_error, found.content[0]["type"]) == (False, "text")


@pytest.mark.requirement("plugins.guards")
async def test_a_denied_call_costs_nothing_and_says_who_denied_it_and_why() -> None:
    place = house(Asked(lambda _: Allow()), Asked(lambda _: Deny("not\non Mondays")))

    result = await place.run()

    told = denial(result)
    assert (told["reason"], told["remedy"]["action"]) == ("guard_denied", "change_approach")
    assert "'plug-1'" in told["remedy"]["text"]
    assert "not on Mondays" in told["remedy"]["text"]
    assert place.ledger.events == []


async def test_what_a_guard_does_to_the_arguments_is_not_done_to_the_call() -> None:
    def spoil(call: SeenCall) -> Verdict:
        cast("dict[str, Any]", call.arguments)["path"].append("gone")
        return Allow()

    later = Asked(lambda _: Allow())
    place = house(Asked(spoil), later)
    arguments = {"path": ["kept"]}

    await place.run(a_call("call_1", **arguments))

    assert arguments == {"path": ["kept"]}
    assert later.before_calls[0].arguments == {"path": ["kept"]}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (raising(RuntimeError("no such table")), "RuntimeError: no such table"),
        (raising(SystemExit(3)), "SystemExit: 3"),
        (lambda _: cast("Verdict", 1), "it answered int, not Allow, Deny or Ask"),
    ],
)
async def test_a_guard_that_fails_denies_and_says_what_to_mend(
    answer: Callable[[SeenCall], Verdict], why: str
) -> None:
    told = denial(await house(Asked(answer)).run())
    let = await house(Asked(answer), failing_denies=False).run()

    assert (told["reason"], told["remedy"]["action"]) == ("guard_denied", "ask_administrator")
    assert why in told["remedy"]["text"]
    assert "plugins.guard_failure" in told["remedy"]["text"]
    assert not let.is_error


async def test_a_guard_that_never_answers_is_not_waited_for() -> None:
    class Hanging(Asked):
        async def before(self, call: SeenCall) -> Verdict:
            await anyio.sleep_forever()
            raise AssertionError

    place = house(Hanging(lambda _: Allow()), timeout_ms=20)

    with anyio.fail_after(SECONDS_MAX):
        told = denial(await place.run())

    assert "no answer within 20 ms" in told["remedy"]["text"]


async def test_a_guard_that_could_not_be_loaded_is_one_that_fails() -> None:
    told = denial(await house("ImportError: no module").run())

    assert "could not be loaded (ImportError: no module)" in told["remedy"]["text"]


async def test_what_fails_after_a_call_changes_nothing_about_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Loud(Asked):
        async def after(self, call: SeenCall, result: SeenResult) -> None:
            raise RuntimeError("token=sk-proj-abcdefghijklmnopqrstuvwx0123456789")

    place = house(Loud(lambda _: Allow()))

    with caplog.at_level(logging.WARNING):
        first, second = await place.run(), await place.run()

    assert not first.is_error
    assert not second.is_error
    # Told once until it works again, and without what looks like a secret.
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("plug-in plug-0 failed: RuntimeError")
    assert "abcdefghijklmnop" not in told


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
async def test_a_guard_can_raise_what_it_likes_and_ends_nothing_but_its_own_part(
    error: BaseException,
) -> None:
    class Ending(Asked):
        async def after(self, call: SeenCall, result: SeenResult) -> None:
            raise error

    told = denial(await house(Asked(raising(error))).run())
    let = await house(Asked(raising(error)), failing_denies=False).run()
    seen = await house(Ending(lambda _: Allow())).run()

    assert told["reason"] == "guard_denied"
    assert type(error).__name__ in told["remedy"]["text"]
    assert not let.is_error
    assert not seen.is_error


async def test_a_call_that_is_cancelled_while_a_guard_is_asked_is_cancelled() -> None:
    class Hanging(Asked):
        async def before(self, call: SeenCall) -> Verdict:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

    asked, place = anyio.Event(), house(Hanging(lambda _: Allow()), failing_denies=False)

    with anyio.fail_after(SECONDS_MAX):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(place.run)
            await asked.wait()
            tasks.cancel_scope.cancel()

    assert place.ledger.events == []


async def test_reasons_without_words_and_timeouts_of_its_own_are_told_as_such() -> None:
    class Silent:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    wordless = denial(await house(Asked(lambda _: Deny(cast("str", Silent())))).run())
    timed_out = denial(await house(Asked(raising(TimeoutError("of its database")))).run())

    assert wordless["reason"] == "guard_denied"
    assert "TimeoutError: of its database" in timed_out["remedy"]["text"]


@pytest.mark.requirement("plugins.guards")
async def test_a_guard_asks_for_a_person_under_the_rules_own_name() -> None:
    clock = FakeClock()
    asking = outside(clock, Asked(lambda _: Ask("it is night")), Asked(lambda _: Allow()))
    seen: list[Any] = []
    place = House(budget(), clock=clock, outside=asking)

    async def admit(job: Any, *_: Any) -> Any:
        seen.append(job.rule)
        raise TimeoutError

    place.approver.admit = admit  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        await place.run()

    (rule,) = seen
    assert rule.name == f"{RULE.name} (guard plug-0: it is night)"
    assert rule.approval == ApprovalTerms(wait_ms=0, ttl_ms=60_000)


@pytest.mark.requirement("plugins.estimators")
async def test_what_an_estimator_expects_is_held_and_denied_where_it_is_not_there() -> None:
    fits, dear = Expecting({"cost_microusd": 900}), Expecting({"cost_microusd": 1_001})
    place = house(fits)

    ran = await place.run()
    told = denial(await house(dear).run())

    assert not ran.is_error
    assert fits.held["tool_calls"] == 1
    assert dict(place.ledger.events[0].amount)["cost_microusd"] == 900
    assert (told["reason"], told["requested"]) == ("budget_exhausted", 1_001)


@pytest.mark.requirement("plugins.estimators")
@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("down"),
        {"parrots": 1},
        {"tool_calls": 0},
        {"cost_microusd": -1},
        {"cost_microusd": math.inf},
        {"cost_microusd": 1.5},
        7,
        "cost_microusd",
        *ODD,
    ],
)
async def test_an_estimator_that_answers_nonsense_changes_nothing(answer: Any) -> None:
    place, plain = house(Expecting(answer)), house()

    result = await place.run()
    await plain.run()

    assert not result.is_error
    assert place.ledger.events[0].amount == plain.ledger.events[0].amount


async def test_an_estimator_that_fails_time_and_again_rests_for_a_while() -> None:
    clock = FakeClock()
    estimator = Expecting(RuntimeError("down"))
    place = House(budget(), clock=clock, outside=outside(clock, estimator))

    for _ in range(FAILURES_MAX + 3):
        await place.run()
    rested = estimator.times
    clock.at_ms += REST_MS
    await place.run()

    assert (rested, estimator.times) == (FAILURES_MAX, FAILURES_MAX + 1)
