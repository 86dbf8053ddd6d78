"""An upstream that keeps failing is left alone: at once, at nobody's cost, until it answers."""

import logging
from collections.abc import Mapping
from dataclasses import replace

import anyio
import pytest

from governor.breaker import BreakerTerms, Permit, Sign
from governor.call import CallStatus
from governor.fairness.adaptive import Concurrency
from governor.fairness.gate import GateBounds
from governor.policy import ApprovalTerms, CacheTerms
from governor.target import CallKind
from tests.governor.makers import budget
from tests.tool_gateway.makers import RULE, FakeClock, House, a_call, answer_ok
from tool_gateway.breakers import Breakers, UpstreamBreaker
from tool_gateway.contention import Contention
from tool_gateway.errors import (
    UpstreamDownError,
    UpstreamFailedError,
    UpstreamLostError,
    UpstreamNotReachedError,
    UpstreamSaidError,
)
from tool_gateway.results import DENIAL_META, Outcome, ToolResult, text_result
from tool_gateway.turnstile import Turnstile

pytestmark = pytest.mark.anyio

TERMS = BreakerTerms(failures_percent=50, calls_min=2, open_ms=5_000, open_ms_max=20_000)
CALLS = budget("calls", tool_calls=100)


async def lost() -> Outcome:
    raise UpstreamLostError("it broke off")


async def down() -> Outcome:
    raise UpstreamDownError("connection refused")


async def late() -> Outcome:
    return Outcome(result=text_result("late", is_error=True), status=CallStatus.TIMED_OUT)


async def told_off() -> Outcome:
    raise UpstreamSaidError("no", code=-32602, words="no")


async def of_another_shape() -> Outcome:
    raise UpstreamFailedError("against its own schema")


async def full() -> Outcome:
    raise UpstreamNotReachedError("64 sessions have a connection already")


def denial_of(result: ToolResult) -> Mapping[str, object] | None:
    found = result.meta.get(DENIAL_META)
    assert found is None or isinstance(found, Mapping)
    return found


async def broken(**more: object) -> House:
    """Return a house whose upstream has failed until it was left alone."""
    house = House(CALLS, behave=lost, breaker=TERMS, **more)
    for _ in range(2):
        assert denial_of(await house.run()) is None
    return house


@pytest.mark.requirement("upstream.breaker-denies-at-once")
async def test_an_upstream_that_keeps_failing_is_asked_no_more_and_nothing_is_held() -> None:
    house = await broken()
    events, ran = len(house.ledger.events), len(house.backend.ran)

    result = await house.run()

    denial = denial_of(result)
    assert denial is not None
    assert (denial["reason"], denial["retry_after_ms"]) == ("upstream_unavailable", 5_000)
    assert "Try again in 5 s" in str(denial["remedy"])
    assert (len(house.ledger.events), len(house.backend.ran)) == (events, ran)
    record = house.ledger.records[-1]
    assert (record.status, record.usage) == (CallStatus.DENIED, None)


@pytest.mark.parametrize("behave", [lost, down, late])
async def test_what_breaks_off_does_not_come_or_is_not_there_is_a_failure(behave: object) -> None:
    house = House(CALLS, behave=behave, breaker=TERMS)

    answers = [denial_of(await house.run()) for _ in range(3)]

    assert [answer is None for answer in answers] == [True, True, False]


@pytest.mark.parametrize("behave", [answer_ok, told_off, of_another_shape, full])
async def test_what_is_answered_or_never_tried_is_none(behave: object) -> None:
    house = House(CALLS, behave=behave, breaker=TERMS)

    answers = [denial_of(await house.run()) for _ in range(5)]

    assert answers == [None] * 5


@pytest.mark.requirement("upstream.breaker-closes-again")
async def test_after_the_pause_one_call_finds_out_and_the_others_follow() -> None:
    house = await broken()
    house.clock.at_ms += 5_000
    may_answer = anyio.Event()

    async def answer() -> Outcome:
        await may_answer.wait()
        return Outcome(result=text_result("back"))

    house.backend.behave, house.backend.started = answer, anyio.Event()
    results: list[ToolResult] = []

    async def probe() -> None:
        results.append(await house.run())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(probe)
            await house.backend.started.wait()
            meanwhile = denial_of(await house.run())
            may_answer.set()

    assert meanwhile is not None
    assert results[0].sole_text == "back"
    assert denial_of(await house.run()) is None


@pytest.mark.requirement("upstream.breaker-closes-again")
async def test_a_probe_that_fails_too_makes_the_pause_longer() -> None:
    house = await broken()
    house.clock.at_ms += 5_000

    probe = denial_of(await house.run())
    after = denial_of(await house.run())

    assert probe is None
    assert after is not None
    assert after["retry_after_ms"] == 10_000


async def test_a_probe_that_a_budget_denies_leaves_its_place_to_the_next() -> None:
    house = House(budget("calls", tool_calls=2), behave=lost, breaker=TERMS)
    for _ in range(2):
        await house.run()
    house.clock.at_ms += 5_000

    reasons = [dict(denial_of(await house.run()) or {})["reason"] for _ in range(2)]

    assert reasons == ["budget_exhausted"] * 2


async def test_a_call_that_is_served_from_an_earlier_answer_needs_no_upstream() -> None:
    house = House(
        CALLS,
        breaker=TERMS,
        rule=replace(RULE, cache=CacheTerms(ttl_ms=60_000, is_repeatable=True)),
    )
    await house.run(a_call("call_a", path="known"))
    house.backend.behave = lost
    for number in range(3):
        await house.run(a_call(f"call_{number}", path=f"new {number}"))

    served = await house.run(a_call("call_b", path="known"))
    anew = await house.run(a_call("call_c", path="another"))

    assert served.sole_text == "done"
    assert denial_of(anew) is not None


async def test_nobody_is_asked_about_a_call_that_would_get_nowhere() -> None:
    house = await broken()
    asking = replace(RULE, approval=ApprovalTerms(wait_ms=0, ttl_ms=60_000))
    house.policy = replace(house.policy, rules=(asking,))

    denial = denial_of(await house.run())  # a house without a desk: to ask would be a fault

    assert denial is not None
    assert denial["reason"] == "upstream_unavailable"


async def test_whoever_waits_for_a_slot_is_told_when_the_breaker_opens() -> None:
    one = Contention(gate=GateBounds(concurrency=Concurrency(start=1, lowest=1, highest=1)))
    clock = FakeClock()
    breakers = Breakers({"files": replace(TERMS, calls_min=1)}, clock=clock)
    turnstile = Turnstile(one, clock=clock, breakers=breakers)
    reasons: list[str] = []

    async def wait() -> None:
        with turnstile.entered(a_call(), kind=CallKind.TOOL, backend="files") as passage:
            denied = await passage.turn()
            reasons.append("" if denied is None else denied.reason.value)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            with turnstile.entered(a_call(), kind=CallKind.TOOL, backend="files") as inside:
                assert await inside.turn() is None
                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                inside.note(CallStatus.UPSTREAM_FAILED, wall_ms=1, sign=Sign.ILL)

    assert reasons == ["upstream_unavailable"]


async def test_a_model_provider_has_a_breaker_of_its_own_beside_an_upstream_of_its_name() -> None:
    clock, once = FakeClock(), replace(TERMS, calls_min=1)
    providers = Breakers({"lab": once}, clock=clock, kind=CallKind.MODEL)
    turnstile = Turnstile(
        Contention(),
        clock=clock,
        breakers=Breakers({"lab": once}, clock=clock),
        provider_breakers=providers,
    )
    with turnstile.entered(a_call(), kind=CallKind.MODEL, backend="lab") as failing:
        assert await failing.turn() is None
        failing.note(CallStatus.UPSTREAM_FAILED, wall_ms=1, sign=Sign.ILL)

    turns = {}
    for kind in (CallKind.MODEL, CallKind.TOOL):
        with turnstile.entered(a_call(), kind=kind, backend="lab") as passage:
            turns[kind] = await passage.turn()

    denied = turns[CallKind.MODEL]
    assert denied is not None
    assert (denied.reason.value, denied.retry_after_ms) == ("upstream_unavailable", 5_000)
    assert turns[CallKind.TOOL] is None


def test_new_terms_begin_anew_and_the_same_terms_keep_their_state() -> None:
    breakers = Breakers({"a": TERMS, "b": TERMS}, clock=FakeClock())
    kept, gone = breakers.of("a"), breakers.of("b")

    breakers.adopt({"a": TERMS, "c": TERMS, "b": replace(TERMS, calls_min=7)})

    assert breakers.of("a") is kept
    assert breakers.of("b") is not gone
    assert breakers.of("c") is not None
    assert breakers.of("elsewhere") is None


async def test_a_breaker_says_once_that_it_opened_and_once_that_it_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    terms = BreakerTerms(calls_min=1, open_ms=1_000)
    clock = FakeClock()
    breaker = UpstreamBreaker("files", terms, clock=clock)

    with caplog.at_level(logging.INFO, logger="tool_gateway.breakers"):
        for sign in (Sign.ILL, Sign.ILL, Sign.WELL):
            permit = breaker.let_through()
            assert isinstance(permit, Permit)
            breaker.ended(permit, sign)
            clock.at_ms += terms.open_ms_max

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "upstream files failed too often and is left alone for 1000 ms, then tried again",
        ),
        ("INFO", "upstream files answers again; its calls go through"),
    ]
