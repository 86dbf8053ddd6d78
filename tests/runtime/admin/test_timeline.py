"""A session's timeline and the curves of its calls, as administrators read them."""

from dataclasses import replace
from typing import Any

import pytest

from governor.amounts import Amounts, Unit
from governor.call import CallRecord, CallStatus, Enforcement, Isolated
from governor.curve import Curve, CurvePoint
from governor.denial import DenialReason
from governor.events import Reserved
from governor.ids import ApprovalId, CallId, TierName, ToolName, TurnId
from governor.scope import ScopeChain
from governor.target import CallKind
from governor.usage import Usage
from memory_store.router_log import RouterDecision
from memory_store.sessions import session_id_for
from tests.governor.makers import question
from tests.runtime.admin.admin_world import AGENT, SESSION, TENANT, World

pytestmark = pytest.mark.anyio

CHAIN = ScopeChain(tenant=TENANT, agent=AGENT, session=SESSION)
MIB = 1024 * 1024
WHY = "tier low: auto: length 12 is short; effort: half of the usual (low); mode: instant"


def _record(world: World, call_id: str, **changes: Any) -> CallRecord:
    now_ms = world.clock.now_ms()
    made = CallRecord(
        call_id=CallId(call_id),
        kind=CallKind.TOOL,
        name="shell_run",
        chain=CHAIN,
        turn=TurnId("turn-1"),
        status=CallStatus.OK,
        started_at_ms=now_ms,
        ended_at_ms=now_ms,
        arguments="{}",
        backend="local",
        rule="default",
        policy_version="v1",
        estimate=Amounts({}),
    )
    return replace(made, **changes)


async def _ended(world: World, call_id: str, **changes: Any) -> None:
    reserved = await world.admit(call_id)
    assert isinstance(reserved, Reserved)
    usage = changes.pop("usage", Usage(measured=Amounts({Unit.COST_MICROUSD: 40})))
    record = _record(world, call_id, usage=usage, **changes)
    await world.parts.store.ledger.settle(reserved.reservation.reservation_id, usage, record)


async def _story(world: World) -> None:
    """Have a session of two turns: a model call, a command, a denial, a freeze, a question."""
    store, clock = world.parts.store, world.clock
    await _ended(world, "model-1", kind=CallKind.MODEL, name="small", backend="lab", rule=WHY)
    await store.router_log.record((_decision(world),), (), ())
    clock.at_ms += 10
    curve = Curve(points=(CurvePoint(50, 9 * MIB, 40), CurvePoint(150, 3 * MIB, 90)))
    ran = Usage(measured=Amounts({Unit.CPU_MS: 90}), memory_peak_bytes=12 * MIB, curve=curve)
    held = Isolated(enforcement=Enforcement.ENFORCED, contained=True, by="hybrid")
    await _ended(world, "shell-1", usage=ran, isolated=held)
    clock.at_ms += 10
    denied = _record(
        world,
        "shell-2",
        turn=TurnId("turn-2"),
        status=CallStatus.DENIED,
        denial=DenialReason.POLICY_DENIED,
        detail="no",
    )
    await store.calls.record(denied)
    clock.at_ms += 10
    await world.post(f"/sessions/{SESSION}/freeze")
    await world.post(f"/sessions/{SESSION}/resume")
    clock.at_ms += 10
    await _question(world)


async def _question(world: World) -> None:
    reserved = await world.admit("shell-3")
    assert isinstance(reserved, Reserved)
    now_ms = world.clock.now_ms()
    await world.parts.store.approvals.open(
        question(
            reserved.reservation,
            approval_id=ApprovalId("apr-1"),
            turn=TurnId("turn-2"),
            tool=ToolName("shell_run"),
            backend="local",
            created_at_ms=now_ms,
            expires_at_ms=now_ms + 60_000,
        ),
        hold_expires_at_ms=now_ms + 60_000,
    )


def _decision(world: World) -> RouterDecision:
    return RouterDecision(
        call_id=CallId("model-1"),
        decided_at_ms=world.clock.now_ms(),
        tenant=TENANT,
        agent=AGENT,
        session=SESSION,
        turn=TurnId("turn-1"),
        task_class=None,
        policy="learned",
        model="m1",
        tier=TierName("low"),
        propensity=0.75,
        explored=False,
        price=0.0,
        options='[["low",0.5,10.0,0.75],["high",0.9,100.0,0.25]]',
        features=b"",
    )


async def _pages(world: World, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await world.get(f"/sessions/{SESSION}/timeline", params={"limit": limit, **cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["items"]
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


@pytest.mark.requirement("timeline.order")
async def test_a_timeline_tells_calls_questions_and_changes_in_the_order_of_time(
    world: World,
) -> None:
    await _story(world)

    page = (await world.get(f"/sessions/{SESSION}/timeline")).json()

    told = [
        item["call"]["id"] if item["kind"] == "call" else item.get("action", item["kind"])
        for item in page["items"]
    ]
    assert told == [
        "model-1",
        "shell-1",
        "shell-2",
        "session.freeze",
        "session.resume",
        "approval",
    ]
    assert page["items"][2]["call"]["denial"] == "policy_denied"
    assert page["session"]["bill"]["calls_total"] == 3
    assert [(one["turn"], one["number"], one["calls"], one["denied"]) for one in page["turns"]] == [
        ("turn-1", 1, 2, 0),
        ("turn-2", 2, 1, 1),
    ]
    assert [(one["id"], one["approval"]) for one in page["running"]] == [("shell-3", "apr-1")]
    running = (await world.get(f"/sessions/{SESSION}/running")).json()
    assert running == {"items": page["running"], "next": None}
    assert (page["parent"], page["children"], page["next"]) == (None, [], None)


@pytest.mark.requirement("timeline.order")
@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_a_timeline_read_page_by_page_is_the_same(world: World, limit: int) -> None:
    await _story(world)

    whole = (await world.get(f"/sessions/{SESSION}/timeline")).json()["items"]

    assert await _pages(world, limit) == whole


@pytest.mark.requirement("timeline.why")
async def test_a_model_call_says_which_tier_it_went_to_and_why(world: World) -> None:
    await _story(world)

    page = (await world.get(f"/sessions/{SESSION}/timeline")).json()

    model = page["items"][0]["model"]
    assert (model["tier"], model["why"]) == ("low", ["auto: length 12 is short"])
    assert (model["effort"], model["mode"]) == ("half of the usual (low)", "instant")
    assert (model["policy"], model["propensity"]) == ("learned", 0.75)
    assert [one["tier"] for one in model["expected"]] == ["low", "high"]
    assert page["items"][1]["model"] is None


@pytest.mark.parametrize("options", ["null", '[["low",null,1.0,1.0]]', "[[]]", "no JSON"])
async def test_a_choice_that_cannot_be_read_leaves_the_rest_of_the_timeline(
    world: World, options: str
) -> None:
    await _ended(world, "model-1", kind=CallKind.MODEL, name="small", backend="lab", rule=WHY)
    await world.parts.store.router_log.record((replace(_decision(world), options=options),), (), ())

    page = (await world.get(f"/sessions/{SESSION}/timeline")).json()

    model = page["items"][0]["model"]
    assert (model["tier"], model["policy"], model["expected"]) == ("low", "learned", [])


@pytest.mark.requirement("curves.kept")
async def test_a_curve_is_read_by_itself_and_a_call_without_one_says_why(world: World) -> None:
    await _story(world)

    page = (await world.get(f"/sessions/{SESSION}/timeline")).json()
    curve = (await world.get("/calls/shell-1/curve")).json()
    none = (await world.get("/calls/model-1/curve")).json()

    calls = [item["call"] for item in page["items"] if item["kind"] == "call"]
    assert [call["has_curve"] for call in calls] == [False, True, False]
    assert (curve["by"], curve["why"], curve["memory_peak_bytes"]) == ("hybrid", None, 12 * MIB)
    assert curve["points"] == [
        {"at_ms": 50, "memory_bytes": 9 * MIB, "cpu_ms": 40, "cpu_millis": 800},
        {"at_ms": 150, "memory_bytes": 3 * MIB, "cpu_ms": 90, "cpu_millis": 500},
    ]
    assert (none["points"], bool(none["why"])) == ([], True)
    assert (await world.get("/calls/nobody/curve")).status_code == 404


async def test_a_session_that_nobody_saw_and_a_cursor_of_another_listing_are_refused(
    world: World,
) -> None:
    await _story(world)
    other = (await world.get("/calls", params={"limit": 1})).json()["next"]

    unknown = await world.get(f"/sessions/{session_id_for(AGENT, 'run-9')}/timeline")
    stray = await world.get(f"/sessions/{SESSION}/timeline", params={"cursor": other})

    assert unknown.status_code == 404
    nobody = await world.get(f"/sessions/{session_id_for(AGENT, 'run-9')}/running")
    assert nobody.status_code == 404
    assert (stray.status_code, stray.json()["errors"][0]["field"]) == (422, "cursor")


@pytest.mark.requirement("timeline.archive")
async def test_an_archived_result_is_read_through_its_call_part_by_part(world: World) -> None:
    entry = await world.parts.store.archive.put(
        "0123456789é".encode(),
        tenant=TENANT,
        agent=AGENT,
        session=SESSION,
        call_id=CallId("long-1"),
        media_type="text/plain",
        now_ms=world.clock.now_ms(),
    )
    await _ended(world, "long-1", archive_id=entry.archive_id)
    await _ended(world, "short-1")

    first = (await world.get("/calls/long-1/archive", params={"length": 4})).json()
    rest = (await world.get("/calls/long-1/archive", params={"offset": 4})).json()

    assert (first["text"], first["next_offset"], first["total_bytes"]) == ("0123", 4, 12)
    assert (rest["text"], rest["next_offset"]) == ("456789é", None)
    assert first["archive"] == entry.archive_id
    assert (await world.get("/calls/short-1/archive")).status_code == 404
    assert (await world.get("/calls/nobody/archive")).status_code == 404
    assert (await world.get("/calls/long-1/archive", params={"offset": -1})).status_code == 422
