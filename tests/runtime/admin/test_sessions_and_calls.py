import anyio
import pytest

from governor.amounts import Amounts, Unit
from governor.denial import DenialReason, Denied
from governor.events import Reserved
from governor.ids import CallId, SessionId
from memory_store.sessions import session_id_for
from runtime.adapters import StorePausing
from runtime.sub_sessions import SubSessions
from tests.runtime.admin.admin_world import ADMIN, AGENT, SESSION, TENANT, World
from tool_gateway.running import RunningCalls

pytestmark = pytest.mark.anyio

OTHER = session_id_for(AGENT, "run-2")


async def test_a_session_is_shown_with_its_bill(world: World) -> None:
    await world.run_call("call-1")
    await world.run_call("call-2")

    session = (await world.get(f"/sessions/{SESSION}")).json()

    bill = session.pop("bill")
    assert session.pop("turns")["mode"] == "unlimited"
    assert session.pop("productivity")["tool_calls"] == 2
    assert session == {
        "id": SESSION,
        "tenant": TENANT,
        "agent": AGENT,
        "name": "run-1",
        "opened_at_ms": world.clock.now_ms(),
        "last_seen_at_ms": world.clock.now_ms(),
        "closed_at_ms": None,
        "closed_by": None,
        "frozen_at_ms": None,
        "frozen_by": None,
    }
    assert (bill["charged"]["tool_calls"], bill["charged"]["cost_microusd"]) == (2, 80)
    assert (bill["calls"], bill["calls_total"]) == ({"ok": 2}, 2)
    assert bill["unmeasured"] == ["cpu_ms"]


async def test_sessions_are_listed_by_agent_tenant_and_whether_they_are_open(
    world: World,
) -> None:
    await world.run_call("call-1")
    await world.run_call("call-2", session=OTHER)
    await world.post(f"/sessions/{OTHER}/kill")

    async def found(**filters: str) -> set[str]:
        answer = await world.get("/sessions", params=filters)
        return {item["id"] for item in answer.json()["items"]}

    assert await found() == await found(tenant=TENANT) == await found(agent=AGENT)
    assert await found() == {SESSION, OTHER}
    assert await found(open="true") == {SESSION}
    assert await found(open="false") == {OTHER}
    assert await found(agent="nobody") == set()


@pytest.mark.requirement("loop.pause-stops-session")
async def test_a_paused_session_is_resumed_once(world: World) -> None:
    await world.run_call("call-1")
    pausing = StorePausing(world.parts.store.sessions)
    assert await pausing.pause(SESSION, now_ms=world.clock.now_ms())
    shown = (await world.get(f"/sessions/{SESSION}")).json()
    denied = await world.admit("call-2")

    first, second, unknown = [
        await world.post(f"/sessions/{session}/resume") for session in (SESSION, SESSION, "ses_404")
    ]

    assert (first.json()["was_paused"], second.json()["was_paused"]) == (True, False)
    assert first.json()["session"]["id"] == SESSION
    assert (shown["frozen_by"], shown["frozen_at_ms"]) == ("loop breaker", world.clock.now_ms())
    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.SESSION_FROZEN
    assert isinstance(await world.admit("call-3"), Reserved)
    assert unknown.status_code == 404


@pytest.mark.requirement("loop.pause-stops-session")
async def test_what_an_administrator_froze_is_not_paused_anew_for_a_loop(world: World) -> None:
    await world.run_call("call-1")
    await world.post(f"/sessions/{SESSION}/freeze")

    is_new = await StorePausing(world.parts.store.sessions).pause(SESSION, now_ms=0)
    resumed = await world.post(f"/sessions/{SESSION}/resume")

    assert not is_new
    assert resumed.json()["was_paused"]


async def test_a_session_that_was_ended_is_not_paused(world: World) -> None:
    await world.run_call("call-1")
    await world.post(f"/sessions/{SESSION}/kill")

    is_new = await StorePausing(world.parts.store.sessions).pause(SESSION, now_ms=0)

    assert not is_new


async def test_killing_a_session_stops_its_running_calls_and_no_others(world: World) -> None:
    ended: list[str] = []
    started = [anyio.Event(), anyio.Event(), anyio.Event()]

    async def call(number: int, session: SessionId) -> None:
        await world.admit(f"call-{number}", session=session)
        with world.parts.running.track(CallId(f"call-{number}"), session) as running:
            with running.stoppable():
                started[number].set()
                await anyio.sleep_forever()
            ended.append(f"{number}: {running.stopped_why}")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number, session in enumerate([SESSION, SESSION, OTHER]):
                tasks.start_soon(call, number, session)
                await started[number].wait()

            killed = await world.post(f"/sessions/{SESSION}/kill")

            await _tracked(world.parts.running, 1)
            survivors = world.parts.running.stop_all(why="the test is over")

    assert killed.status_code == 200
    assert killed.json()["calls_stopped"] == 2
    assert killed.json()["session"]["closed_by"] == ADMIN
    assert survivors == 1
    assert sorted(ended)[:2] == [f"{n}: an administrator ended the session" for n in (0, 1)]


async def test_killing_a_session_stops_the_calls_of_all_that_were_carved_out_of_it(
    world: World,
) -> None:
    await world.run_call("call-1")
    below = SubSessions(world.parts.store, clock=world.clock)
    for parent, name in ((SESSION, "child"), ("child", "grandchild")):
        limits = Amounts({Unit.TOOL_CALLS: 1})
        await below.spawn(tenant=TENANT, agent=AGENT, parent=parent, name=name, limits=limits)
    # Its agent closed one before: what ran in it runs yet.
    await below.close(AGENT, "grandchild")
    track = world.parts.running.track

    with (
        track(CallId("call-2"), session_id_for(AGENT, "child")) as in_child,
        track(CallId("call-3"), session_id_for(AGENT, "grandchild")) as in_grandchild,
        track(CallId("call-4"), OTHER) as elsewhere,
    ):
        killed = await world.post(f"/sessions/{SESSION}/kill")

    assert killed.json()["calls_stopped"] == 2
    assert in_child.stopped_why == in_grandchild.stopped_why is not None
    assert elsewhere.stopped_why is None


async def test_a_killed_session_admits_no_call(world: World) -> None:
    await world.run_call("call-1")
    await world.post(f"/sessions/{SESSION}/kill")

    decision = await world.admit("call-2")

    assert isinstance(decision, Denied)
    assert decision.reason is DenialReason.SESSION_CLOSED


async def test_what_runs_is_stopped_even_if_the_store_cannot_close_the_session(
    world: World,
) -> None:
    await world.admit("call-1")
    # The token is proven while the store still answers, and remembered.
    await world.get("/sessions")
    world.parts.store.writer.stop_taking()

    with world.parts.running.track(CallId("call-1"), SESSION) as running:
        killed = await world.post(f"/sessions/{SESSION}/kill")

    assert killed.status_code == 503
    assert running.stopped_why == "an administrator ended the session"


async def test_killing_twice_is_no_error(world: World) -> None:
    await world.run_call("call-1")
    first = await world.post(f"/sessions/{SESSION}/kill")
    world.clock.at_ms += 1000

    second = await world.post(f"/sessions/{SESSION}/kill")

    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()


async def test_unknown_sessions_and_calls_are_404(world: World) -> None:
    answers = [
        await world.get("/sessions/ses_unknown"),
        await world.post("/sessions/ses_unknown/kill"),
        await world.get("/calls/unknown"),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 404]


async def test_a_call_is_shown_with_what_it_was_charged(world: World) -> None:
    await world.run_call("call-1")

    call = (await world.get("/calls/call-1")).json()

    assert call["charged"]["cost_microusd"] == 40
    assert call["estimate"] == {"tool_calls": 1, "cost_microusd": 50}
    assert call["usage"]["measured"] == {"tool_calls": 1, "cost_microusd": 40, "wall_ms": 7}
    assert call["usage"]["unmeasured"] == {"cpu_ms": "the upstream runs elsewhere"}
    assert (call["id"], call["session"], call["status"]) == ("call-1", SESSION, "ok")


@pytest.mark.requirement("cost.unified-beside-parts")
async def test_a_call_and_a_bill_say_their_unified_cost(world: World) -> None:
    await world.run_call("call-1")
    await world.run_call("call-2")

    call = (await world.get("/calls/call-1")).json()
    listed = (await world.get("/calls")).json()["items"]
    bill = (await world.get(f"/sessions/{SESSION}")).json()["bill"]

    # The policy's price of a tool call is 5.
    assert call["unified_cost_microusd"] == 40 + 5
    assert [each["unified_cost_microusd"] for each in listed] == [45, 45]
    assert (bill["charged"]["cost_microusd"], bill["unified_cost_microusd"]) == (80, 90)
    assert call["usage"]["estimated"] == []


async def test_calls_are_listed_and_filtered(world: World) -> None:
    await world.run_call("call-1")
    await world.run_call("call-2", session=OTHER)

    async def found(**filters: str) -> list[str]:
        answer = await world.get("/calls", params=filters)
        return [item["id"] for item in answer.json()["items"]]

    assert await found() == ["call-2", "call-1"]
    assert await found(session=OTHER) == ["call-2"]
    assert await found(status="ok", name="files__read", tenant=TENANT) == ["call-2", "call-1"]
    assert await found(status="denied") == await found(name="other") == []
    assert await found(agent="nobody") == []


async def test_calls_of_a_period_are_those_that_ended_in_it(world: World) -> None:
    began_ms = world.clock.at_ms
    for number in range(3):
        await world.run_call(f"call-{number}")
        world.clock.at_ms += 1_000

    async def found(**filters: object) -> list[str]:
        answer = await world.get("/calls", params=filters)
        return [item["id"] for item in answer.json()["items"]]

    ended_ms = began_ms + 7
    assert await found(since_ms=ended_ms + 1_000) == ["call-2", "call-1"]
    assert await found(until_ms=ended_ms + 1_000) == ["call-0"]
    assert await found(since_ms=ended_ms, until_ms=ended_ms + 2_000) == ["call-1", "call-0"]
    assert await found(kind="model") == []
    assert len(await found(kind="tool")) == 3
    assert (await world.get("/calls", params={"since_ms": -1})).status_code == 422


async def test_pages_hold_every_call_once(world: World) -> None:
    for number in range(7):
        await world.run_call(f"call-{number}")

    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        params = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = (await world.get("/calls", params=params)).json()
        found += [item["id"] for item in page["items"]]
        cursor, pages = page["next"], pages + 1

    assert pages == 3
    assert found == [f"call-{number}" for number in reversed(range(7))]


async def _tracked(running: RunningCalls, count: int) -> None:
    while len(running) > count:
        await anyio.lowlevel.checkpoint()


async def test_what_is_unknown_of_a_call_that_expired_is_null(world: World) -> None:
    await world.admit("call-1")
    world.clock.at_ms += 120_000
    await world.parts.store.ledger.expire_due(now_ms=world.clock.now_ms())

    call = (await world.get("/calls/call-1")).json()

    assert call["status"] == "expired"
    assert {call[name] for name in ("arguments", "rule", "policy_version")} == {None}
