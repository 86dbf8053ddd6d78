"""What a budget would have denied, as administrators ask before they set it."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
from contracts.builders import COST, budget

from governor.budget import Budget
from governor.call import CallStatus
from governor.ids import BudgetId, CallId
from memory_store import past_calls
from runtime.errors import PreviewsBusyError
from runtime.long_preview import LongPreviews
from runtime.previewing import WAITING_MAX, Preview, Previews
from tests.runtime.admin.admin_world import AGENT, TENANT, World

pytestmark = pytest.mark.anyio

MINUTE = 60_000
DAY = 24 * 60 * MINUTE


async def _calls(world: World, count: int) -> None:
    """Have calls of 40 micro-dollars, one each minute."""
    for number in range(count):
        await world.run_call(f"call-{number}")
        world.clock.at_ms += MINUTE


def _new(**changes: Any) -> dict[str, Any]:
    made = {"tenant": TENANT, "scope": "agent", "limits": {"cost_microusd": 100}}
    return {"new": made | changes}


async def _asked(world: World, body: dict[str, Any]) -> dict[str, Any]:
    answer = await world.post("/budgets/preview", body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.requirement("preview.route")
async def test_a_new_budget_is_previewed_and_not_made(world: World) -> None:
    await _calls(world, 5)

    found = await _asked(world, _new())

    after = found["after"]
    # Two fit: each holds 50 before it runs and costs 40.
    assert (after["calls"], after["denied"], after["denied_cost_microusd"]) == (5, 3, 120)
    assert [(one["name"], one["denied"]) for one in after["by_name"]] == [("files__read", 3)]
    assert [(one["name"], one["denied"]) for one in after["by_subject"]] == [(AGENT, 3)]
    assert after["examples"][0] | {"at_ms": 0} == {
        "call": "call-2",
        "name": "files__read",
        "subject": AGENT,
        "at_ms": 0,
        "unit": "cost_microusd",
        "limit": 100,
        "used": 80,
        "requested": 50,
    }
    assert found["complete"]
    assert found["before"] is None
    assert (await world.get("/budgets")).json()["items"] == []


@pytest.mark.requirement("preview.route")
async def test_a_change_is_compared_with_the_budget_as_it_stands(world: World) -> None:
    await _calls(world, 5)
    made = await world.post("/budgets", {"id": "b", **_new()["new"]})
    assert made.status_code == 201

    tighter = await _asked(world, {"id": "b", "change": {"limits": {"cost_microusd": 60}}})
    looser = await _asked(world, {"id": "b", "change": {"limits": {"cost_microusd": 190}}})
    same = await _asked(world, {"id": "b"})

    assert (tighter["before"]["denied"], tighter["after"]["denied"]) == (3, 4)
    assert (tighter["newly_denied"], tighter["no_longer_denied"]) == (1, 0)
    assert (looser["newly_denied"], looser["no_longer_denied"]) == (0, 2)
    assert (same["before"], same["after"]["denied"]) == (None, 3)
    assert (await world.get("/budgets/b")).json()["limits"] == {"cost_microusd": 100}


@pytest.mark.requirement("preview.honest")
async def test_what_cannot_be_known_is_said(world: World) -> None:
    await _calls(world, 3)
    tight = {**_new()["new"], "limits": {"cost_microusd": 10}, "id": "tight"}
    await world.post("/budgets", tight)
    denied = await world.admit("call-denied")
    record = await _denied_record(world)

    found = await _asked(world, _new(limits={"cpu_ms": 100}, mode="observe"))

    assert not hasattr(denied, "reservation")
    assert record == "denied"
    unknown = found["unknown"]
    assert (unknown["denied_then"], unknown["unmeasured"]) == (1, 3)
    said = " ".join(unknown["notes"])
    for words in ("1 call was denied", "3 calls were not", "never starts anew", "only observes"):
        assert words in said


async def _denied_record(world: World) -> str:
    """Keep the record of a call that was denied, as the gateway does."""
    calls = world.parts.store.calls
    view = await calls.get((await calls.page()).items[0].record.call_id)
    record = replace(
        view.record, call_id=CallId("call-denied"), status=CallStatus.DENIED, usage=None
    )
    await calls.record(record)
    return (await calls.get(CallId("call-denied"))).record.status.value


async def test_days_that_are_not_asked_for_are_left_out_but_for_what_counts(world: World) -> None:
    await _calls(world, 2)
    world.clock.at_ms += 3 * DAY
    await world.run_call("call-late")

    day = await _asked(world, {**_new(window={"every_s": 3600}), "days": 1})
    lifetime = await _asked(world, {**_new(), "days": 1})

    assert (day["after"]["calls"], day["after"]["denied"]) == (1, 0)
    assert (lifetime["after"]["calls"], lifetime["after"]["denied"]) == (1, 1)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"id": "b", **_new()}, "body"),
        ({**_new(), "change": {}}, "body"),
        ({**_new(), "days": 0}, "days"),
        ({**_new(), "days": 91}, "days"),
        ({"new": {"tenant": TENANT, "scope": "agent", "limits": {}}}, "new.limits"),
    ],
)
async def test_a_preview_of_nothing_or_of_two_is_refused(
    world: World, body: dict[str, Any], field: str
) -> None:
    answer = await world.post("/budgets/preview", body)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"subject": "codre"}, "subject"),
        ({"scope": "session", "subject": "ses_none"}, "subject"),
        ({"match": {"tool": "flies__read"}}, "match.tool"),
    ],
)
async def test_a_misspelt_name_is_refused_as_it_is_where_the_budget_is_made(
    world: World, changes: dict[str, Any], field: str
) -> None:
    await world.post("/budgets", {"id": "b", **_new()["new"]})

    for body in (_new(**changes), {"id": "b", "change": changes}):
        answer = await world.post("/budgets/preview", body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["field"] == field


async def test_a_preview_without_a_call_that_it_governs_says_that_this_says_nothing(
    world: World,
) -> None:
    found = await _asked(world, _new())

    assert found["after"]["calls"] == 0
    assert "None of the calls" in found["unknown"]["notes"][0]


async def test_a_budget_or_tenant_that_is_not_there_is_refused(world: World) -> None:
    assert (await world.post("/budgets/preview", {"id": "none"})).status_code == 404
    assert (await world.post("/budgets/preview", _new(tenant="none"))).status_code == 404


@pytest.mark.requirement("preview.bounded")
async def test_a_preview_that_may_look_at_few_calls_says_that_it_is_a_part(world: World) -> None:
    await _calls(world, 6)
    past, now_ms = world.parts.store.past_calls, world.clock.now_ms()

    found = await Previews(calls_max=4).of(past, _own(), before=None, days=7, now_ms=now_ms)

    assert not found.is_complete
    # The latest four, of which the first two fit.
    assert (found.after.calls, found.after.denied) == (4, 2)
    assert found.from_ms == now_ms - 4 * MINUTE


@pytest.mark.requirement("preview.bounded")
async def test_a_preview_whose_time_is_up_tells_what_it_has(world: World) -> None:
    await _calls(world, 3)
    past, now_ms = world.parts.store.past_calls, world.clock.now_ms()
    ticks = iter(range(0, 10_000, 100))

    previews = Previews(seconds_max=1.0, elapsed=lambda: next(ticks))
    found = await previews.of(past, _own(), before=None, days=7, now_ms=now_ms)

    # What it began with is done: a preview always gets somewhere.
    assert found.after.calls == 3


@pytest.mark.requirement("preview.bounded")
async def test_one_preview_is_made_at_a_time_and_few_wait(world: World) -> None:
    past, now_ms = world.parts.store.past_calls, world.clock.now_ms()
    previews, busy = Previews(), []

    async def one() -> None:
        try:
            await previews.of(past, _own(), before=None, days=7, now_ms=now_ms)
        except PreviewsBusyError:
            busy.append(1)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(WAITING_MAX + 2):
                tasks.start_soon(one)

    assert len(busy) == 2


async def _lines(world: World, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await world.post("/budgets/preview/whole", body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.requirement("preview.whole")
async def test_a_whole_preview_says_how_far_it_is_and_finds_what_the_other_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_calls, "READ_AT_ONCE", 2)
    await _calls(world, 7)
    body = _new() | {"days": 1}

    *going, last = await _lines(world, body)
    plain = await _asked(world, body)

    assert [one["progress"]["calls"] for one in going] == [0, 2, 4, 6]
    far = [one["progress"]["permille"] for one in going]
    assert far == sorted(set(far))
    assert last == {"preview": plain | {"until_ms": last["preview"]["until_ms"]}}
    assert plain["after"]["denied"] == 5
    assert (await world.post("/budgets/preview/whole", {"id": "none"})).status_code == 404


@pytest.mark.requirement("preview.whole")
async def test_a_whole_preview_whose_time_is_up_or_that_nobody_reads_lets_the_next_begin(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_calls, "READ_AT_ONCE", 2)
    await _calls(world, 7)
    past, now_ms = world.parts.store.past_calls, world.clock.now_ms()
    ticks = iter(range(0, 10_000, 100))
    previews = LongPreviews(seconds_max=1.0, elapsed=lambda: next(ticks))
    begin = partial(previews.of, past, _own(), before=None, days=7, now_ms=now_ms)

    left = begin()
    await anext(left)
    with pytest.raises(PreviewsBusyError):
        await anext(begin())
    await left.aclose()
    *_, last = [one async for one in begin()]

    assert isinstance(last, Preview)
    assert not last.is_complete


def _own() -> Budget:
    made = budget({COST: 100}, tenant=TENANT)
    assert made.budget_id == BudgetId("b1")
    return made
