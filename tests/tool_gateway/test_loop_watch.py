"""Loops on the path of a call: what is run, what is charged, what the model is told."""

from dataclasses import replace

import anyio
import pytest

from governor.amounts import Unit
from governor.budget import Budget
from governor.call import CallStatus
from governor.ids import SessionId, ToolName
from governor.loops import BREAKER, LoopRule
from governor.policy import Match
from governor.tracker import LINE_CHARS_MAX, Tracker
from tests.governor.makers import budget
from tests.tool_gateway.makers import CHAIN, ENTRY, RULE, House, a_call
from tool_gateway.catalog import ToolEntry
from tool_gateway.errors import (
    LedgerOverloadedError,
    LedgerUnavailableError,
    UpstreamFailedError,
    UpstreamNotReachedError,
)
from tool_gateway.loop_watch import SESSIONS_MAX
from tool_gateway.results import (
    BUDGET_META,
    CALL_META,
    DENIAL_META,
    LOOP_META,
    Outcome,
    ToolResult,
    text_block,
    text_result,
)

pytestmark = pytest.mark.anyio

CALLS = budget("calls", tool_calls=1_000)


def reading(entry: ToolEntry = ENTRY, **hints: object) -> ToolEntry:
    definition = {**entry.definition, "annotations": {"readOnlyHint": True, **hints}}
    return replace(entry, definition=definition)


def breaking_house(*budgets: Budget, loops: LoopRule | None = BREAKER, **terms: object) -> House:
    house = House(
        CALLS, *budgets, rule=replace(RULE, loops=loops, **terms), contact="ops@acme.test"
    )
    house.entry = reading()
    return house


def texts(result: ToolResult) -> list[str]:
    return [str(block["text"]) for block in result.to_wire()["content"]]


def measure(result: ToolResult) -> object:
    loop = result.meta.get(LOOP_META)
    return loop["measure"] if isinstance(loop, dict) else None


def denial(result: ToolResult) -> dict[str, object]:
    shape = result.meta[DENIAL_META]
    assert isinstance(shape, dict)
    return shape


async def times(house: House, count: int, **arguments: object) -> list[ToolResult]:
    return [await house.run(a_call(house.clock.fresh("call"), **arguments)) for _ in range(count)]


@pytest.mark.requirement("loop.trips-at-its-count")
async def test_the_ladder_reminds_serves_denies_and_pauses_each_at_its_call() -> None:
    house = breaking_house()

    results = await times(house, 13, path="/a")

    assert [measure(result) for result in results] == [
        *[None] * 2,
        "remind",
        *["serve"] * 2,
        *["deny"] * 6,
        "pause",
        None,
    ]
    assert len(house.backend.ran) == 3
    reasons = [denial(result)["reason"] for result in results[5:]]
    assert reasons == [*["loop_detected"] * 7, "session_frozen"]


async def test_a_reminder_is_a_line_of_its_own_under_the_result() -> None:
    house = breaking_house()

    *_, third = await times(house, 3, path="/a")

    assert texts(third) == [
        "done",
        (
            "[loop: the same call of files__read was made 3 times with the same result. Change the "
            "arguments, use another tool, or finish with what you have.]"
        ),
    ]
    assert third.meta[LOOP_META] == {"kind": "identical", "count": 3, "measure": "remind"}
    assert not third.is_error


async def test_the_default_reminds_and_runs_every_call() -> None:
    house = House(CALLS)
    house.entry = reading()

    results = await times(house, 20)

    assert [measure(result) for result in results] == [None, None, *["remind"] * 18]
    assert len(house.backend.ran) == 20


@pytest.mark.requirement("loop.served-costs-nothing")
async def test_a_served_call_runs_nothing_and_costs_nothing() -> None:
    house = breaking_house(budget("turns", turns=10), turn_per_call=True)
    await times(house, 3, path="/a")
    before = [house.ledger.remaining(unit) for unit in (Unit.TOOL_CALLS, Unit.TURNS)]

    (served,) = await times(house, 1, path="/a")

    assert len(house.backend.ran) == 3
    assert [house.ledger.remaining(unit) for unit in (Unit.TOOL_CALLS, Unit.TURNS)] == before
    assert texts(served) == [
        "done",
        (
            "[loop: the same call of files__read was made 4 times with the same result, so this "
            "is the earlier result; nothing was run. Change the arguments, use another tool, or "
            "finish with what you have.]"
        ),
    ]
    loop = served.meta[LOOP_META]
    assert isinstance(loop, dict)
    assert loop["served_from"] == house.backend.ran[-1].call_id
    record = house.ledger.records[-1]
    assert (record.status, record.detail) == (CallStatus.OK, "served from an earlier result")
    assert record.usage is None
    assert not any(amount for _, amount in record.estimate)
    assert served.meta[CALL_META] == {"call_id": record.call_id, "status": "ok"}


async def test_a_served_call_is_refused_where_the_ledger_refuses() -> None:
    house = breaking_house()
    await times(house, 3)
    house.ledger.down.add("admit")

    (refused,) = await times(house, 1)

    assert denial(refused)["reason"] == "ledger_unavailable"


@pytest.mark.parametrize(
    ("entry", "loops"),
    [
        (ENTRY, BREAKER),
        (reading(readOnlyHint=False), BREAKER),
        (reading(), replace(BREAKER, serve=0)),
    ],
)
async def test_a_tool_that_may_do_something_is_not_served(
    entry: ToolEntry, loops: LoopRule
) -> None:
    house = breaking_house(loops=loops)
    house.entry = entry

    results = await times(house, 6)

    assert len(house.backend.ran) == 5
    assert [measure(result) for result in results[2:]] == [*["remind"] * 3, "deny"]


@pytest.mark.parametrize(
    ("entry", "loops"),
    [
        (reading(readOnlyHint=False, idempotentHint=True), BREAKER),
        (ENTRY, replace(BREAKER, is_repeatable=True)),
    ],
)
async def test_a_tool_that_may_be_repeated_is_served(entry: ToolEntry, loops: LoopRule) -> None:
    house = breaking_house(loops=loops)
    house.entry = entry

    await times(house, 5)

    assert len(house.backend.ran) == 3


async def test_a_result_too_large_to_keep_is_fetched_again() -> None:
    async def answer() -> Outcome:
        return Outcome(result=text_result("x" * 200_000))

    house = breaking_house(archive_above_bytes=1_000_000)
    house.backend.behave = answer

    results = await times(house, 6)

    assert len(house.backend.ran) == 5
    assert measure(results[-1]) == "deny"


async def test_a_denied_loop_says_how_to_go_on_and_whom_to_ask() -> None:
    house = breaking_house(cheaper="files__stat")

    *_, denied = await times(house, 6)

    shape = denial(denied)
    assert denied.is_error
    assert shape["retry_after_ms"] == 300_000
    assert shape["remedy"] == {
        "action": "change_approach",
        "text": (
            "The call was not run: the same call of files__read was made 6 times with the same "
            "result. Change the arguments, use another tool, or finish with what you have. To see "
            "whether something has changed since, look again in 5 min. Cheaper: files__stat. Whom "
            "to ask: ops@acme.test."
        ),
        "cheaper": "files__stat",
        "contact": "ops@acme.test",
    }
    assert house.ledger.records[-1].status is CallStatus.DENIED


async def test_a_denied_call_may_run_again_after_the_time_that_was_named() -> None:
    house = breaking_house()
    *_, denied = await times(house, 6)
    house.clock.at_ms += 300_000

    (later,) = await times(house, 1)

    assert denied.is_error
    assert not later.is_error
    assert len(house.backend.ran) == 4


@pytest.mark.requirement("loop.progress-is-none")
async def test_other_arguments_and_other_results_go_on_as_ever() -> None:
    house = breaking_house()
    count = 0

    async def answer() -> Outcome:
        nonlocal count
        count += 1
        return Outcome(result=text_result(f"row {count}"))

    house.backend.behave = answer
    results = [*await times(house, 10), *[(await times(house, 1, cursor=n))[0] for n in range(10)]]

    assert [measure(result) for result in results] == [None] * 20


async def test_sessions_do_not_see_one_anothers_loops() -> None:
    house = breaking_house()
    await times(house, 5)
    other = replace(CHAIN, session=SessionId("ada/two"))

    result = await house.run(replace(a_call("call_x"), chain=other))

    assert measure(result) is None
    assert house.backend.ran[-1].chain == other


@pytest.mark.requirement("loop.pause-stops-session")
async def test_a_paused_session_starts_nothing_until_it_is_resumed() -> None:
    house = breaking_house()
    *_, pausing = await times(house, 12)
    (stopped,) = await times(house, 1, path="/else")

    house.ledger.frozen.remove(CHAIN.session)
    house.clock.at_ms += 300_000
    (resumed,) = await times(house, 1, path="/else")

    assert denial(pausing)["reason"] == "loop_detected"
    assert "files__read was made 12 times" in str(denial(pausing)["remedy"])
    assert "files__read was made 12 times" in str(house.ledger.records[11].detail)
    assert denial(stopped)["reason"] == "session_frozen"
    assert "an administrator can resume it" in str(denial(stopped)["remedy"])
    assert not resumed.is_error


@pytest.mark.requirement("loop.pause-stops-session")
async def test_a_session_that_was_resumed_begins_anew_and_a_new_loop_is_paused_again() -> None:
    house = breaking_house()
    await times(house, 12)
    house.ledger.frozen.remove(CHAIN.session)

    first, *_, again = await times(house, 12)

    assert measure(first) is None
    assert not first.is_error
    assert measure(again) == "pause"
    assert house.ledger.frozen == {CHAIN.session}


@pytest.mark.requirement("loop.pause-stops-session")
@pytest.mark.parametrize("error", [LedgerUnavailableError, LedgerOverloadedError])
async def test_a_loop_that_cannot_be_paused_is_denied_until_it_can(error: type[Exception]) -> None:
    house = breaking_house()
    await times(house, 11)
    house.ledger.down, house.ledger.error = {"pause"}, error
    (denied,) = await times(house, 1)
    house.ledger.down = set()

    (pausing,) = await times(house, 1)

    assert (denial(denied)["reason"], measure(denied)) == ("loop_detected", "deny")
    assert "paused" not in str(denial(denied)["remedy"])
    assert measure(pausing) == "pause"
    assert len(house.backend.ran) == 3


async def test_a_rule_that_is_off_watches_nothing_and_parts_the_others() -> None:
    house = breaking_house(loops=None)

    results = await times(house, 20)

    assert [measure(result) for result in results] == [None] * 20
    assert len(house.backend.ran) == 20


async def test_what_an_unwatched_tool_may_have_changed_is_looked_at_anew() -> None:
    house = breaking_house()
    unwatched = replace(RULE, name="poll", match=Match(tool="poll"), loops=None)
    house.policy = replace(house.policy, rules=(unwatched, *house.policy.rules))
    results = []

    for _ in range(8):
        results += await times(house, 1)
        await house.run(replace(a_call(house.clock.fresh("call")), tool=ToolName("poll")))

    assert [measure(result) for result in results] == [None] * 8
    assert len(house.backend.ran) == 16


async def test_a_call_that_never_reached_its_upstream_is_no_part_of_a_loop() -> None:
    async def refuse() -> Outcome:
        raise UpstreamNotReachedError

    house = breaking_house()
    house.backend.behave = refuse

    results = await times(house, 20)

    assert [measure(result) for result in results] == [None] * 20


async def test_an_upstream_that_keeps_failing_is_a_loop_that_is_never_served() -> None:
    async def fail() -> Outcome:
        raise UpstreamFailedError

    house = breaking_house()
    house.backend.behave = fail

    results = await times(house, 6)

    assert [measure(result) for result in results] == [None, None, *["remind"] * 3, "deny"]


@pytest.mark.requirement("idempotency.same-replays")
async def test_a_retry_under_its_own_key_is_replayed_and_no_loop() -> None:
    house = breaking_house()
    first = await house.run(a_call("call_a", key="k"))
    await times(house, 5)

    retried = await house.run(a_call("call_b", key="k"))

    assert not first.is_error
    assert DENIAL_META not in retried.meta
    call = retried.meta[CALL_META]
    assert isinstance(call, dict)
    assert call["replayed"] is True


async def test_calls_side_by_side_are_each_judged_as_they_end() -> None:
    house = breaking_house()
    go = anyio.Event()

    async def wait() -> Outcome:
        await go.wait()
        return Outcome(result=text_result("done"))

    house.backend.behave = wait
    results: list[ToolResult] = []

    async def one(number: int) -> None:
        results.append(await house.run(a_call(f"call_{number}")))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(one, number)
            await house.backend.started.wait()
            go.set()

    assert len(house.backend.ran) == 8
    assert [measure(result) for result in results].count("remind") == 6


async def test_the_session_that_rested_longest_is_forgotten() -> None:
    house = breaking_house()
    await times(house, 2)
    for number in range(SESSIONS_MAX):
        chain = replace(CHAIN, session=SessionId(f"ada/other-{number}"))
        await house.run(replace(a_call(f"call_o{number}"), chain=chain))

    (again,) = await times(house, 1)

    assert measure(again) is None


@pytest.mark.requirement("budget.share-and-pace-are-shown")
async def test_a_result_tells_share_and_pace_of_each_budget() -> None:
    house = breaking_house(budget("turns", turns=4))

    result = await house.run(a_call(turn="one"))

    shown = result.meta[BUDGET_META]
    assert isinstance(shown, list)
    assert [(each["share_left"], each["pace"], each["left"]) for each in shown] == [
        (0.999, 0.0, "HIGH"),
        (0.75, None, "HIGH"),
    ]


@pytest.mark.requirement("budget.line-is-short")
async def test_the_rule_puts_a_line_under_the_result_and_leaves_its_structure_alone() -> None:
    async def answer() -> Outcome:
        return Outcome(result=ToolResult(content=(text_block('{"n":1}'),), structured={"n": 1}))

    house = breaking_house(tracker=Tracker.LINE)
    house.backend.behave = answer
    house.entry = replace(
        house.entry, definition={**house.entry.definition, "outputSchema": {"type": "object"}}
    )

    result = await house.run()

    shown, line = texts(result)
    assert shown == '{"n":1}'
    assert result.structured == {"n": 1}
    assert line == "[budget HIGH: 999 of 1000 tool calls left (99%)]"
    assert len(line) <= LINE_CHARS_MAX


async def test_a_line_for_low_budgets_waits_until_one_is_low() -> None:
    house = House(budget("calls", tool_calls=10), rule=replace(RULE, tracker=Tracker.WHEN_LOW))

    results = [(await times(house, 1, n=n))[0] for n in range(8)]

    assert [len(texts(result)) for result in results[:5]] == [1] * 5
    assert texts(results[-1])[-1] == "[budget LOW: 2 of 10 tool calls left (20%)]"
