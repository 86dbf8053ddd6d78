import pytest

from governor.denial import DenialReason, Denied
from governor.events import Reserved
from governor.ids import CallId
from memory_store.sessions import session_id_for
from tests.runtime.admin.admin_world import ADMIN, AGENT, SESSION, World

pytestmark = pytest.mark.anyio

OTHER = session_id_for(AGENT, "run-2")


@pytest.mark.requirement("session.frozen-denies")
async def test_a_frozen_session_admits_nothing_until_it_is_resumed(world: World) -> None:
    await world.run_call("call-1")

    frozen = await world.post(f"/sessions/{SESSION}/freeze")
    denied = await world.admit("call-2")
    elsewhere = await world.admit("call-3", session=OTHER)
    resumed = await world.post(f"/sessions/{SESSION}/resume")
    admitted = await world.admit("call-4")

    assert frozen.json()["session"]["frozen_by"] == ADMIN
    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.SESSION_FROZEN
    assert resumed.json()["session"]["frozen_at_ms"] is None
    assert isinstance(elsewhere, Reserved)
    assert isinstance(admitted, Reserved)


async def test_freezing_and_resuming_reach_the_commands_of_this_session_alone(
    world: World,
) -> None:
    await world.run_call("call-1")
    world.commands.names = {"call-2"}
    running = world.parts.running

    with (
        running.track(CallId("call-2"), SESSION),
        running.track(CallId("call-3"), SESSION),
        running.track(CallId("call-4"), OTHER),
    ):
        frozen = await world.post(f"/sessions/{SESSION}/freeze")
        marked = [running.is_frozen(CallId(f"call-{number}")) for number in (2, 3, 4, 5)]
        resumed = await world.post(f"/sessions/{SESSION}/resume")

    assert (frozen.json()["commands_frozen"], resumed.json()["commands_resumed"]) == (1, 1)
    assert marked == [True, True, False, False]
    assert world.commands.notes == [
        "freeze call-2",
        "freeze call-3",
        "thaw call-2",
        "thaw call-3",
    ]


async def test_resuming_says_whether_anything_had_been_paused(world: World) -> None:
    await world.run_call("call-1")
    world.commands.names = {"call-2"}

    with world.parts.running.track(CallId("call-2"), SESSION):
        await world.post(f"/sessions/{SESSION}/freeze")
        answers = [(await world.post(f"/sessions/{SESSION}/resume")).json() for _ in range(2)]

    told = [(answer["was_paused"], answer["commands_resumed"]) for answer in answers]
    assert told == [(True, 1), (False, 0)]


async def test_both_are_audited_and_doing_either_twice_is_no_error(world: World) -> None:
    await world.run_call("call-1")
    answers = []

    for verb in ("freeze", "freeze", "resume", "resume"):
        answers.append((await world.post(f"/sessions/{SESSION}/{verb}")).json()["session"])
        world.clock.at_ms += 1_000

    noted = (await world.get("/audit")).json()["items"][:2]
    assert answers[0] == answers[1]
    assert answers[2] == answers[3]
    assert [entry["action"] for entry in noted] == ["session.resume", "session.freeze"]
    assert noted[1]["after"]["frozen_by"] == ADMIN


async def test_what_is_closed_or_unknown_cannot_be_frozen_or_resumed(world: World) -> None:
    await world.run_call("call-1")
    await world.post(f"/sessions/{SESSION}/kill")

    closed = [await world.post(f"/sessions/{SESSION}/{verb}") for verb in ("freeze", "resume")]
    unknown = [await world.post(f"/sessions/ses_unknown/{verb}") for verb in ("freeze", "resume")]

    assert [answer.status_code for answer in closed] == [409, 409]
    assert [answer.status_code for answer in unknown] == [404, 404]


async def test_a_frozen_session_can_be_killed(world: World) -> None:
    await world.run_call("call-1")
    await world.post(f"/sessions/{SESSION}/freeze")

    killed = await world.post(f"/sessions/{SESSION}/kill")

    assert killed.status_code == 200
    denied = await world.admit("call-2")
    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.SESSION_CLOSED
