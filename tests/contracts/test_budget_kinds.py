"""What every ledger promises of the kinds of budget, their windows and their modes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio
import pytest
from begun import begun_for_one
from contracts.builders import COST, budget, record, request, used
from contracts.conftest import MemoryStage, SqlStage, Stage, balance_of
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.budget import Budget, BudgetKind, Mode, Overdraft
from governor.denial import DenialReason, Denied
from governor.events import Reserved
from governor.target import CallKind, CallTarget, TargetMatch
from governor.window import Calendar, Fixed, Period, Sliding
from memory_store.engine import Durability
from memory_store.store import open_store
from memory_store.testing import MemoryLedger

pytestmark = pytest.mark.anyio

BERLIN = ZoneInfo("Europe/Berlin")
HOUR_MS = 3_600_000


async def spend(stage: Stage, cost: int, *, now_ms: int) -> bool:
    """Run one call to its end; False if it was denied."""
    asked = request({COST: cost}, now_ms=now_ms, expires_at_ms=now_ms + 1)
    if not isinstance(await stage.ledger.admit(asked), Reserved):
        return False
    ending = record(asked, ended_at_ms=now_ms)
    await stage.ledger.settle(asked.reservation_id, used({COST: cost}), ending)
    return True


@pytest.mark.parametrize(("month", "day", "hours"), [(3, 29, 23), (10, 25, 25), (7, 1, 24)])
async def test_a_calendar_day_lasts_as_long_as_the_clocks_on_the_wall_say(
    stage: Stage, month: int, day: int, hours: int
) -> None:
    midnight = datetime(2026, month, day, tzinfo=BERLIN).astimezone(UTC)
    start_ms = int(midnight.timestamp()) * 1000
    daily = Calendar(period=Period.DAY, time_zone="Europe/Berlin", zone=BERLIN)
    await stage.put_budget(budget({COST: 10}, window=daily))

    assert await spend(stage, 10, now_ms=start_ms)
    last_ms = start_ms + hours * HOUR_MS - 1
    denied = await stage.ledger.admit(request({COST: 1}, now_ms=last_ms, expires_at_ms=last_ms + 1))

    assert isinstance(denied, Denied)
    assert denied.shortage is not None
    assert denied.shortage.resets_at_ms == last_ms + 1
    assert await spend(stage, 10, now_ms=last_ms + 1)


@pytest.mark.requirement("denial.remedy-helps")
async def test_a_sliding_budget_says_when_this_call_fits_and_not_when_all_has_left(
    stage: Stage,
) -> None:
    # Parts of 100 ms: what was used at 10,000,050 counts until 10,001,100.
    began_ms = 10_000_000
    await stage.put_budget(budget({COST: 10}, window=Sliding(length_ms=1_000, buckets=10)))
    for after_ms, cost in ((50, 4), (350, 3), (850, 3)):
        assert await spend(stage, cost, now_ms=began_ms + after_ms)

    told = {}
    for cost in (1, 4, 5, 7, 8, 10):
        now_ms = began_ms + 900
        denied = await stage.ledger.admit(
            request({COST: cost}, now_ms=now_ms, expires_at_ms=now_ms + 1)
        )
        assert isinstance(denied, Denied)
        assert denied.shortage is not None
        assert denied.shortage.resets_at_ms == now_ms + (denied.retry_after_ms or 0)
        told[cost] = denied.shortage.resets_at_ms - began_ms

    assert told == {1: 1_100, 4: 1_100, 5: 1_400, 7: 1_400, 8: 1_900, 10: 1_900}
    assert not await spend(stage, 4, now_ms=began_ms + 1_099)
    assert await spend(stage, 4, now_ms=began_ms + 1_100)


async def test_a_concurrency_comes_back_however_a_call_ends(stage: Stage) -> None:
    await stage.put_budget(budget({Unit.TOOL_CALLS: 1}, kind=BudgetKind.CONCURRENCY))

    async def admitted() -> AdmissionRequest:
        asked = request({Unit.TOOL_CALLS: 1})
        assert isinstance(await stage.ledger.admit(asked), Reserved)
        full = await stage.ledger.admit(request({Unit.TOOL_CALLS: 1}))
        assert isinstance(full, Denied)
        assert full.reason is DenialReason.CONCURRENCY_EXHAUSTED
        return asked

    first = await admitted()
    await stage.ledger.settle(first.reservation_id, used({Unit.TOOL_CALLS: 1}), record(first))
    second = await admitted()
    await stage.ledger.release(second.reservation_id, record(second))
    third = await admitted()
    await stage.ledger.forward(third.reservation_id)
    await stage.ledger.expire_due(now_ms=20_000)

    view = await balance_of(stage, unit=Unit.TOOL_CALLS)
    assert (view.used, view.reserved) == (0, 0)
    await admitted()


async def test_a_call_that_states_no_tool_call_takes_a_slot_only_where_one_is_free(
    stage: Stage,
) -> None:
    await stage.put_budget(budget({Unit.TOOL_CALLS: 1}, kind=BudgetKind.CONCURRENCY))
    model = CallTarget(kind=CallKind.MODEL, name="gpt", tier="large")

    first = await stage.ledger.admit(replace(request({COST: 1}), target=model))
    second = await stage.ledger.admit(replace(request({COST: 1}), target=model))

    assert isinstance(first, Reserved)
    assert isinstance(second, Denied)
    assert second.reason is DenialReason.CONCURRENCY_EXHAUSTED


async def test_a_rate_that_is_changed_goes_on_in_its_new_scale(stage: Stage) -> None:
    # 7 in 1,000 ms and 10 in 1,000 ms share no unit of time: 7 and 1 ticks to a millisecond.
    for limit in (7, 10):
        await stage.put_budget(
            budget({COST: limit}, kind=BudgetKind.RATE, window=Fixed(length_ms=1_000))
        )
        assert await spend(stage, limit, now_ms=10_000_000)
        assert not await spend(stage, 1, now_ms=10_000_000)
        assert (await balance_of(stage, now_ms=10_000_000)).used == limit


@pytest.mark.requirement("denial.remedy-helps")
async def test_a_denial_by_a_rate_and_its_balance_tell_the_same_story(stage: Stage) -> None:
    window = Fixed(length_ms=10_000)
    await stage.put_budget(budget({COST: 3}, kind=BudgetKind.RATE, window=window, burst=1))
    assert await spend(stage, 1, now_ms=10_000_000)

    denied = await stage.ledger.admit(
        request({COST: 1}, now_ms=10_000_000, expires_at_ms=10_000_001)
    )

    view = await balance_of(stage, now_ms=10_000_000)
    assert isinstance(denied, Denied)
    short = denied.shortage
    assert short is not None
    for told in (short, view):
        assert (told.limit, told.every_ms, told.burst) == (3, 10_000, 1)
        assert (told.used, told.reserved, told.remaining) == (1, 0, 0)
    assert denied.retry_after_ms == 3_334
    assert "3 cost_microusd pass in 10 s, at most 1 at once; 0 may pass now" in denied.remedy.text


async def test_a_burst_above_the_limit_is_held_and_comes_back_at_the_limits_pace(
    stage: Stage,
) -> None:
    window = Fixed(length_ms=1_000)
    await stage.put_budget(budget({COST: 2}, kind=BudgetKind.RATE, window=window, burst=5))

    assert await spend(stage, 5, now_ms=10_000_000)
    assert not await spend(stage, 3, now_ms=10_001_000)
    assert await spend(stage, 2, now_ms=10_001_000)


async def test_a_call_of_a_changed_rate_is_corrected_in_the_scale_that_it_was_held_in(
    stage: Stage,
) -> None:
    a_second = Fixed(length_ms=1_000)
    await stage.put_budget(budget({COST: 7}, kind=BudgetKind.RATE, window=a_second))
    asked = request({COST: 7}, now_ms=10_000_000, expires_at_ms=10_000_100)
    await stage.ledger.admit(asked)

    await stage.put_budget(budget({COST: 10}, kind=BudgetKind.RATE, window=a_second))
    await stage.ledger.settle(asked.reservation_id, used({COST: 0}), record(asked))

    assert await spend(stage, 10, now_ms=10_000_000)
    assert not await spend(stage, 1, now_ms=10_000_000)


async def test_what_a_rate_has_refilled_is_not_given_back_once_more(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 10}, kind=BudgetKind.RATE, window=Fixed(length_ms=1_000)))
    first = request({COST: 10}, now_ms=10_000_000, expires_at_ms=10_009_000)
    await stage.ledger.admit(first)
    assert await spend(stage, 10, now_ms=10_001_000)

    await stage.ledger.release(first.reservation_id, record(first, ended_at_ms=10_001_000))

    assert not await spend(stage, 1, now_ms=10_001_000)
    assert await spend(stage, 10, now_ms=10_002_000)


async def test_what_is_not_used_of_a_rate_comes_back_at_once(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 10}, kind=BudgetKind.RATE, window=Fixed(length_ms=1_000)))
    asked = request({COST: 10}, now_ms=10_000_000, expires_at_ms=10_009_000)
    await stage.ledger.admit(asked)

    ending = record(asked, ended_at_ms=10_000_100)
    await stage.ledger.settle(asked.reservation_id, used({COST: 2}), ending)

    # Eight were not used; one of ten had come back by itself, and eight and one are nine.
    assert await spend(stage, 9, now_ms=10_000_100)
    assert not await spend(stage, 1, now_ms=10_000_100)


async def test_what_overruns_a_rate_without_measure_is_still_booked(stage: Stage) -> None:
    # Each unit takes a day of 86,400,000 ticks, so that this many are beyond 64 bits.
    await stage.put_budget(budget({COST: 1}, kind=BudgetKind.RATE, window=Fixed(24 * HOUR_MS)))
    asked = request({COST: 1}, now_ms=10_000_000, expires_at_ms=10_000_100)
    await stage.ledger.admit(asked)

    await stage.ledger.settle(asked.reservation_id, used({COST: 10**12}), record(asked))

    assert not await spend(stage, 1, now_ms=10_000_000 + 1_000 * 365 * 24 * HOUR_MS)


async def test_a_budget_that_becomes_a_concurrency_counts_what_runs_and_not_what_was_charged(
    stage: Stage,
) -> None:
    await stage.put_budget(budget({Unit.TOOL_CALLS: 5}))
    for _ in range(5):
        asked = request({Unit.TOOL_CALLS: 1})
        await stage.ledger.admit(asked)
        await stage.ledger.settle(asked.reservation_id, used({}), record(asked))

    await stage.put_budget(budget({Unit.TOOL_CALLS: 1}, kind=BudgetKind.CONCURRENCY))

    assert isinstance(await stage.ledger.admit(request({Unit.TOOL_CALLS: 1})), Reserved)
    assert isinstance(await stage.ledger.admit(request({Unit.TOOL_CALLS: 1})), Denied)
    view = await balance_of(stage, unit=Unit.TOOL_CALLS)
    assert (view.used, view.reserved) == (0, 1)


@pytest.mark.requirement("budget.observe-denies-nothing")
async def test_an_observing_budget_denies_nothing_and_says_what_it_would_have(
    stage: Stage,
) -> None:
    await stage.put_budget(budget({COST: 10}, mode=Mode.OBSERVE))

    fits = await stage.ledger.admit(request({COST: 10}))
    beyond = await stage.ledger.admit(request({COST: 5}))

    assert isinstance(fits, Reserved)
    assert isinstance(beyond, Reserved)
    assert fits.would_deny == ()
    [short] = beyond.would_deny
    assert (short.budget_id, short.limit, short.reserved, short.requested) == ("b1", 10, 10, 5)
    assert (await balance_of(stage)).remaining == -5
    if isinstance(stage, SqlStage):
        [notice] = (await stage.store.notices.page()).items
        assert (notice.kind, notice.budget_id, notice.unit) == ("would_deny", "b1", COST)


@pytest.mark.requirement("budget.observe-denies-nothing")
async def test_an_observing_budget_denies_nothing_that_it_cannot_count(stage: Stage) -> None:
    await stage.put_budget(budget({Unit.TURNS: 5, Unit.CPU_MS: 5}, mode=Mode.OBSERVE))
    blind = replace(request({COST: 1}), unmeasurable={Unit.CPU_MS: "it runs elsewhere"})

    decision = await stage.ledger.admit(blind)

    assert isinstance(decision, Reserved)
    assert [short.unit for short in decision.would_deny] == [Unit.CPU_MS, Unit.TURNS]


async def test_a_debt_lets_one_call_cross_and_then_none(stage: Stage) -> None:
    await stage.put_budget(
        budget({COST: 10}, overdraft=Overdraft.ALLOW_AND_DEBT, window=Fixed(1_000))
    )

    ran = [await spend(stage, cost, now_ms=1_000) for cost in (9, 5, 1, 1)]

    assert ran == [True, True, False, False]
    assert (await balance_of(stage)).remaining == -4
    assert await spend(stage, 1, now_ms=2_000)


@pytest.mark.requirement("budget.warns-once")
async def test_each_threshold_is_told_once_by_the_call_that_reaches_it(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 10}, warn_at_permille=(500, 800, 1000)))
    told = []
    for cost in (4, 1, 1, 4, 0):
        asked = request({COST: cost})
        await stage.ledger.admit(asked)
        settled = await stage.ledger.settle(asked.reservation_id, used({COST: cost}), record(asked))
        told.append([warned.at for warned in settled.warned])

    assert told == [[], [5], [], [8, 10], []]
    if isinstance(stage, SqlStage):
        notices = (await stage.store.notices.page()).items
        assert [notice.detail for notice in reversed(notices)] == [
            '{"at":5,"limit":10,"used":5}',
            '{"at":8,"limit":10,"used":10}',
            '{"at":10,"limit":10,"used":10}',
        ]


@pytest.mark.parametrize(
    ("match", "bound"),
    [
        (TargetMatch(tool="files__*"), [True, False]),
        (TargetMatch(upstream="openai"), [False, True]),
        (TargetMatch(tier="hi*"), [False, True]),
        (TargetMatch(tool="files__*", tier="high"), [False, False]),
    ],
)
async def test_a_match_narrows_a_budget_to_its_calls(
    stage: Stage, match: TargetMatch, bound: list[bool]
) -> None:
    await stage.put_budget(budget({COST: 0}, match=match))
    model = CallTarget(kind=CallKind.MODEL, name="gpt", upstream="openai", tier="high")

    tool_call = await stage.ledger.admit(request({COST: 1}))
    chat = await stage.ledger.admit(replace(request({COST: 1}), target=model))

    assert [isinstance(tool_call, Denied), isinstance(chat, Denied)] == bound


@pytest.mark.parametrize("buckets", [1, 6, 600])
async def test_a_clock_that_steps_back_does_not_open_a_sliding_window_again(
    stage: Stage, buckets: int
) -> None:
    await stage.put_budget(budget({COST: 10}, window=Sliding(length_ms=6_000, buckets=buckets)))
    assert await spend(stage, 10, now_ms=30_500)

    denials = [
        await stage.ledger.admit(request({COST: 1}, now_ms=30_500 - back_ms, expires_at_ms=99_999))
        for back_ms in (0, 499, 500, 501, 4_999, 5_000, 5_001)
    ]

    reasons = [denied.reason for denied in denials if isinstance(denied, Denied)]
    assert reasons == [*[DenialReason.BUDGET_EXHAUSTED] * 6, DenialReason.CLOCK_STEPPED_BACK]


async def test_a_clock_that_steps_back_gives_no_rate_back_twice(stage: Stage) -> None:
    rate = budget({COST: 10}, kind=BudgetKind.RATE, window=Fixed(10_000), burst=10)
    await stage.put_budget(rate)
    first = request({COST: 10}, now_ms=100_000, expires_at_ms=200_000)
    assert isinstance(await stage.ledger.admit(first), Reserved)

    # Ten seconds on, time itself has brought everything back, and it passes again.
    assert await spend(stage, 10, now_ms=110_000)
    ending = record(first, ended_at_ms=105_000)
    await stage.ledger.settle(first.reservation_id, used({COST: 0}), ending)

    assert not await spend(stage, 1, now_ms=110_000)


HISTORY = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 7)), min_size=1, max_size=25)
KINDS = pytest.mark.parametrize("kind", ["memory", "sql"])
LIMIT, WINDOW_MS, BURST = 10, 600, 4


@KINDS
@settings(max_examples=25)
@given(HISTORY)
def test_a_sliding_window_never_admits_more_than_its_limit_within_its_length(
    sqlite_model: Path, kind: str, history: list[tuple[int, int]]
) -> None:
    sliding = budget({COST: LIMIT}, window=Sliding(length_ms=WINDOW_MS, buckets=6))

    ran = anyio.run(played, sqlite_model if kind == "sql" else None, sliding, history)

    for at, (began_ms, _) in enumerate(ran):
        within = [cost for now_ms, cost in ran[at:] if now_ms - began_ms < WINDOW_MS]
        assert sum(within) <= LIMIT


@KINDS
@settings(max_examples=25)
@given(HISTORY)
def test_a_rate_never_lets_more_through_than_its_burst_and_what_refills(
    sqlite_model: Path, kind: str, history: list[tuple[int, int]]
) -> None:
    rate = budget({COST: LIMIT}, kind=BudgetKind.RATE, window=Fixed(WINDOW_MS), burst=BURST)

    ran = anyio.run(played, sqlite_model if kind == "sql" else None, rate, history)

    for first, (began_ms, _) in enumerate(ran):
        passed = 0
        for now_ms, cost in ran[first:]:
            passed += cost
            assert (passed - BURST) * WINDOW_MS <= LIMIT * (now_ms - began_ms)


async def played(
    model: Path | None, governing: Budget, history: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return when what was spent."""
    ran, now_ms = [], 10_000
    async with a_stage(model) as stage:
        await stage.put_budget(governing)
        for wait_ms, cost in history:
            now_ms += wait_ms
            if await spend(stage, cost, now_ms=now_ms):
                ran.append((now_ms, cost))
    return ran


@asynccontextmanager
async def a_stage(model: Path | None) -> AsyncIterator[Stage]:
    if model is None:
        yield MemoryStage(MemoryLedger())
        return
    with begun_for_one(model) as state_dir:
        async with open_store(state_dir, durability=Durability.PROCESS) as store:
            yield SqlStage(store)
