from dataclasses import replace

import anyio
import pytest

from governor.amounts import Unit
from governor.call import CallStatus, Enforcement, Isolated
from governor.events import Released, Settled
from governor.flow.policy import FlowPolicy
from governor.limits import Isolation
from tests.governor.makers import budget
from tests.tool_gateway.makers import RULE, House, a_call, measured
from tool_gateway import books
from tool_gateway.errors import (
    IdempotencyConflictError,
    LedgerOverloadedError,
    UpstreamFailedError,
    UpstreamNotReachedError,
)
from tool_gateway.results import (
    ARCHIVE_META,
    BUDGET_META,
    CALL_META,
    DENIAL_META,
    Outcome,
    text_result,
)

pytestmark = pytest.mark.anyio

CALLS = budget("calls", tool_calls=10)
MONEY = budget("money", cost_microusd=100)
WALL = budget("wall", wall_ms=50_000)


def reason_of(result_meta: object) -> object:
    assert isinstance(result_meta, dict)
    return result_meta[DENIAL_META]["reason"]


async def never_answer() -> Outcome:
    await anyio.sleep_forever()
    raise AssertionError


async def test_a_call_that_ends_well_is_charged_once_and_recorded() -> None:
    house = House(CALLS, MONEY)

    result = await house.run(a_call(path="a.txt"))

    assert not result.is_error
    assert result.sole_text == "done"
    assert isinstance(house.ended, Settled)
    assert (house.ledger.remaining(), house.ledger.remaining(Unit.COST_MICROUSD)) == (9, 93)
    assert house.record.status is CallStatus.OK
    assert house.record.arguments == '{"path": "a.txt"}'
    assert (house.record.rule, house.record.policy_version) == ("any", "v1")


async def test_the_hold_is_marked_before_the_backend_is_asked() -> None:
    house = House(CALLS)
    marked: list[bool] = []

    async def look() -> Outcome:
        marked.append(bool(house.ledger.forwarded))
        return Outcome(result=text_result("done"))

    house.backend.behave = look
    await house.run()

    assert marked == [True]


async def test_what_the_backend_measured_is_charged_and_time_is_taken_by_the_clock() -> None:
    house = House(WALL, MONEY)

    async def work() -> Outcome:
        house.clock.at_ms += 1_200
        return Outcome(result=text_result("done"), usage=measured(cost_microusd=11))

    house.backend.behave = work
    await house.run()

    assert house.ledger.remaining(Unit.WALL_MS) == 50_000 - 1_200
    assert house.ledger.remaining(Unit.COST_MICROUSD) == 100 - 11


@pytest.mark.requirement("overrun.is-recorded")
async def test_a_call_that_used_more_than_it_held_is_charged_and_the_next_one_sees_it() -> None:
    house = House(budget("money", cost_microusd=10))
    house.backend.behave = costing_25

    first = await house.run()
    second = await house.run()

    assert not first.is_error
    assert house.ledger.remaining(Unit.COST_MICROUSD) == -15
    assert reason_of(second.meta) == "budget_exhausted"


async def costing_25() -> Outcome:
    return Outcome(result=text_result("done"), usage=measured(cost_microusd=25))


@pytest.mark.requirement("budget.remaining-is-shown")
async def test_the_result_says_what_remains_of_each_budget() -> None:
    house = House(CALLS, MONEY)

    result = await house.run()

    shown = result.meta[BUDGET_META]
    assert isinstance(shown, list)
    assert shown[0] == {
        "budget_id": "calls",
        "scope": "tenant",
        "unit": "tool_calls",
        "limit": 10,
        "used": 1,
        "reserved": 0,
        "remaining": 9,
        "starts_at_ms": None,
        "resets_at_ms": None,
        "share_left": 0.9,
        "pace": None,
        "left": "HIGH",
    }
    assert [line["remaining"] for line in shown] == [9, 93]


@pytest.mark.requirement("denial.changes-nothing")
async def test_a_denial_starts_nothing_and_changes_nothing() -> None:
    house = House(budget("calls", tool_calls=0), MONEY)

    result = await house.run()

    assert result.is_error
    assert reason_of(result.meta) == "budget_exhausted"
    assert house.backend.ran == []
    assert house.ledger.events == []
    assert (house.record.status, house.record.usage) == (CallStatus.DENIED, None)


async def test_a_tool_that_no_rule_allows_is_denied_without_asking_the_ledger() -> None:
    house = House(CALLS, rule=replace(RULE, allow=False))
    house.ledger.down = {"admit"}

    result = await house.run()

    assert reason_of(result.meta) == "policy_denied"
    assert house.backend.ran == []


@pytest.mark.requirement("isolation.unavailable-denies")
@pytest.mark.parametrize(
    "isolated",
    [
        Isolated(enforcement=Enforcement.OBSERVED, contained=True, by="psutil", why="no cgroup"),
        Isolated(enforcement=Enforcement.ENFORCED, contained=False, by="rlimit", why="no cgroup"),
    ],
)
async def test_a_command_that_the_host_cannot_hold_is_not_run(isolated: Isolated) -> None:
    house = House(CALLS)
    house.backend.isolated = isolated

    result = await house.run()

    assert reason_of(result.meta) == "isolation_unavailable"
    assert "no cgroup" in (result.sole_text or "")
    assert house.backend.ran == []
    assert house.ledger.events == []


@pytest.mark.requirement("isolation.unavailable-denies")
async def test_best_effort_runs_it_and_the_record_says_what_stood_around_it() -> None:
    house = House(CALLS, rule=replace(RULE, isolation=Isolation.BEST_EFFORT))
    seen = Isolated(enforcement=Enforcement.OBSERVED, contained=False, by="psutil", why="no cgroup")
    house.backend.isolated = seen

    async def work() -> Outcome:
        return Outcome(result=text_result("done"), isolated=seen)

    house.backend.behave = work
    result = await house.run()

    assert not result.is_error
    assert house.record.isolated == seen
    assert result.meta[CALL_META]["isolation"]["enforcement"] == "observed"


@pytest.mark.requirement("upstream.refused-is-released")
async def test_a_call_that_never_reached_the_upstream_is_released() -> None:
    async def refuse() -> Outcome:
        message = "connection refused"
        raise UpstreamNotReachedError(message)

    house = House(CALLS, MONEY, behave=refuse)
    result = await house.run()

    assert result.is_error
    assert "was not run: connection refused" in (result.sole_text or "")
    assert isinstance(house.ended, Released)
    assert (house.ledger.remaining(), house.ledger.remaining(Unit.COST_MICROUSD)) == (10, 100)
    assert house.record.status is CallStatus.RELEASED


@pytest.mark.requirement("input.upstream-dies")
async def test_a_call_that_the_upstream_failed_is_settled() -> None:
    async def die() -> Outcome:
        message = "it died"
        raise UpstreamFailedError(message)

    house = House(CALLS, MONEY, behave=die)
    result = await house.run()

    assert result.is_error
    assert isinstance(house.ended, Settled)
    assert house.ledger.remaining(Unit.COST_MICROUSD) == 93
    assert (house.record.status, house.record.detail) == (CallStatus.UPSTREAM_FAILED, "it died")


@pytest.mark.requirement("upstream.timeout-is-settled")
async def test_a_call_that_timed_out_is_settled_with_the_time_it_took() -> None:
    house = House(CALLS, WALL)

    async def time_out() -> Outcome:
        house.clock.at_ms += 5_000
        return Outcome(result=text_result("too late", is_error=True), status=CallStatus.TIMED_OUT)

    house.backend.behave = time_out
    result = await house.run()

    assert result.is_error
    assert isinstance(house.ended, Settled)
    assert house.ledger.remaining(Unit.WALL_MS) == 45_000


@pytest.mark.requirement("ledger.down-at-settle-keeps-result")
async def test_a_ledger_that_hangs_at_settlement_cannot_hang_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(books, "SETTLE_SECONDS_MAX", 0.01)
    house = House(CALLS)
    house.ledger.may_settle = anyio.Event()

    with anyio.fail_after(60):
        result = await house.run()

    assert result.sole_text == "done"
    assert len(house.ledger.books.live) == 1


@pytest.mark.requirement("ledger.down-denies")
async def test_with_the_ledger_down_nothing_starts() -> None:
    house = House(CALLS)
    house.ledger.down = {"admit", "record"}

    result = await house.run()

    assert result.is_error
    assert reason_of(result.meta) == "ledger_unavailable"
    assert house.backend.ran == []


@pytest.mark.requirement("ledger.down-denies")
async def test_a_ledger_with_a_full_queue_says_when_to_try_again() -> None:
    house = House(CALLS)
    house.ledger.down, house.ledger.error = {"admit"}, LedgerOverloadedError

    result = await house.run()

    assert reason_of(result.meta) == "overloaded"
    assert result.meta[DENIAL_META]["retry_after_ms"] == 1_000
    assert house.backend.ran == []


@pytest.mark.requirement("ledger.down-at-settle-keeps-result")
async def test_with_the_ledger_down_at_settlement_the_result_stands() -> None:
    house = House(CALLS)
    house.ledger.down = {"settle"}

    result = await house.run()

    assert result.sole_text == "done"
    assert len(house.ledger.books.live) == 1, "held until the reaper ends it"
    assert house.ledger.remaining() == 9


@pytest.mark.requirement("ledger.down-denies")
async def test_a_hold_that_cannot_be_marked_lets_nothing_leave() -> None:
    # What the call will show is kept between the hold and its mark.
    house = House(CALLS, flow=FlowPolicy(rules=()))
    house.ledger.down = {"forward"}

    result = await house.run()

    assert reason_of(result.meta) == "ledger_unavailable"
    assert house.backend.ran == []
    assert isinstance(house.ended, Released)
    assert house.ledger.remaining() == 10


@pytest.mark.requirement("idempotency.same-replays")
async def test_a_repeated_key_gives_the_stored_outcome_and_charges_once() -> None:
    house = House(CALLS)

    first = await house.run(a_call("call_a", key="k", path="a"))
    again = await house.run(a_call("call_b", key="k", path="a"))

    assert again.content == first.content
    assert again.is_error == first.is_error
    assert again.meta[CALL_META] == {"call_id": "call_a", "replayed": True}
    assert len(house.backend.ran) == 1
    assert house.ledger.remaining() == 9


@pytest.mark.requirement("idempotency.same-replays")
async def test_a_repeated_key_of_a_running_call_says_that_it_runs() -> None:
    house = House(CALLS, behave=never_answer)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.run, a_call("call_a", key="k"))
            await house.backend.started.wait()
            again = await house.run(a_call("call_b", key="k"))
            tasks.cancel_scope.cancel()

    assert again.is_error
    assert again.meta[CALL_META] == {"call_id": "call_a", "replayed": "in_progress"}
    assert len(house.backend.ran) == 1


@pytest.mark.requirement("idempotency.other-conflicts")
async def test_a_repeated_key_with_another_payload_is_a_conflict() -> None:
    house = House(CALLS)
    await house.run(a_call("call_a", key="k", path="a"))

    with pytest.raises(IdempotencyConflictError):
        await house.run(a_call("call_b", key="k", path="b"))

    assert len(house.backend.ran) == 1


@pytest.mark.requirement("archive.byte-exact")
async def test_a_large_result_is_kept_whole_and_its_head_is_shown() -> None:
    text = "ä" * 4_000

    async def write() -> Outcome:
        return Outcome(result=text_result(text))

    house = House(CALLS, rule=replace(RULE, archive_above_bytes=1_000), behave=write)
    result = await house.run()

    entry = result.meta[ARCHIVE_META]
    assert isinstance(entry, dict)
    assert house.archive.kept[entry["archive_id"]][1] == text.encode()
    assert result.content[0]["text"] == "ä" * 125
    assert house.record.archive_id == entry["archive_id"]
    assert house.record.result_bytes == 8_000


@pytest.mark.requirement("archive.down-passes-result")
async def test_with_the_archive_down_the_model_gets_the_whole_result() -> None:
    async def write() -> Outcome:
        return Outcome(result=text_result("x" * 4_000))

    house = House(CALLS, rule=replace(RULE, archive_above_bytes=1_000), behave=write)
    house.archive.is_down = True
    result = await house.run()

    assert result.sole_text == "x" * 4_000
    assert isinstance(house.ended, Settled)


@pytest.mark.requirement("turn.unknown-denies")
async def test_a_rule_may_count_each_call_as_a_turn() -> None:
    turns = budget("turns", turns=5)
    strict, lenient = House(turns), House(turns, rule=replace(RULE, turn_per_call=True))

    denied, ran = await strict.run(a_call(turn=None)), await lenient.run(a_call(turn=None))

    assert reason_of(denied.meta) == "turn_unknown"
    assert not ran.is_error
    assert lenient.ledger.remaining(Unit.TURNS) == 4


@pytest.mark.requirement("unit.unmeasurable-denies")
async def test_a_budget_on_what_the_backend_cannot_measure_denies() -> None:
    house = House(budget("cpu", cpu_ms=1_000))

    result = await house.run()

    assert reason_of(result.meta) == "unit_unmeasurable"
    assert house.backend.ran == []


async def test_a_backend_that_breaks_unexpectedly_is_settled_all_the_same() -> None:
    async def break_down() -> Outcome:
        message = "a bug"
        raise ZeroDivisionError(message)

    house = House(CALLS, behave=break_down)

    with pytest.raises(ZeroDivisionError):
        await house.run()

    assert isinstance(house.ended, Settled)
    assert house.ledger.remaining() == 9
