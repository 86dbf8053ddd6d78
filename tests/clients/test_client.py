"""The client library against a running sidecar: the agent's side and the administrator's."""

import inspect
from typing import Any

import anyio
import httpx
import pytest
from scenarios.clients import House

from runtime.client import (
    AdminClient,
    AsyncAdminClient,
    AsyncFlyball,
    AsyncMemory,
    AsyncSessions,
    DeniedError,
    Flyball,
    Memory,
    NotReachedError,
    RefusedError,
    Sessions,
)

pytestmark = [pytest.mark.slow, pytest.mark.requirement("clients.python")]
SECONDS_MAX = 60


def base_of(house: House) -> str:
    return house.sidecar.urls["agents"].removesuffix("/mcp")


def agent(house: House, session: str | None) -> Flyball:
    return Flyball(base_of(house), token=house.sidecar.token("agent"), session=session)


def admin(house: House) -> AdminClient:
    base = house.sidecar.urls["admin"].removesuffix("/admin/v1")
    return AdminClient(base, token=house.sidecar.token("admin"))


async def echoed(house: House, session: str) -> str:
    async with house.sidecar.agent(session) as client:
        result = await client.call_tool("worker__echo", {"text": "hello"})
    found: str = result.meta["flyball/call"]["call_id"]
    return found


def test_a_program_divides_a_session_and_sees_what_is_left(house: House) -> None:
    with agent(house, "lead") as flyball:
        made = flyball.sessions.spawn("helper of lead", limits={"tool_calls": 4})
        call = anyio.run(echoed, house, "helper of lead")
        helper = flyball.sessions.read("helper of lead")
        with pytest.raises(DeniedError) as denied:
            flyball.sessions.spawn("greedy", limits={"tool_calls": 1000})
        lead = flyball.sessions.read()
        worth = flyball.sessions.say_outcome(success=True, name="helper of lead")
        closed = flyball.sessions.close("helper of lead")
        budgets = flyball.sessions.budgets()

    assert [scope.kind for scope in made.chain][-1] == "sub_session"
    assert call
    assert helper.left("tool_calls") == 3
    assert helper.left("cost_microusd") is None
    assert denied.value.denial["reason"] == "budget_exhausted"
    assert "tool_calls" in str(denied.value)
    assert (lead.left("tool_calls"), lead.parent) == (26, None)
    assert worth.success is True
    assert closed.given_back == {"tool_calls": 3}
    assert {one.budget_id: one.remaining for one in budgets} == {"calls": 29}


def test_a_program_says_what_a_session_is_for_and_what_an_answer_was_worth(house: House) -> None:
    with agent(house, "told") as flyball:
        said = flyball.sessions.say_task("Tell Ada the time.", task_class="errand")
        with pytest.raises(RefusedError) as again:
            flyball.sessions.say_task("Tell nobody.")
        with pytest.raises(RefusedError) as foreign:
            flyball.sessions.say_worth("call_nobody_made", 1.0)
    with agent(house, None) as nameless, pytest.raises(ValueError, match="name a session"):
        nameless.sessions.read()

    assert said.task_class == "errand"
    assert (again.value.status, foreign.value.status) == (409, 404)


def test_an_administrator_changes_a_budget_and_stops_a_session(house: House) -> None:
    call = anyio.run(echoed, house, "watched")
    with admin(house) as boss:
        made = boss.make_budget(
            tenant="default", scope="agent", limits={"tool_calls": 500}, id="of-agents"
        )
        changed = boss.change_budget("of-agents", version=made.version, limits={"tool_calls": 400})
        with pytest.raises(RefusedError) as stale:
            boss.change_budget("of-agents", version=made.version, limits={"tool_calls": 300})
        listed = {one.id for one in boss.budgets()}
        boss.retire_budget("of-agents")
        with pytest.raises(RefusedError) as gone:
            boss.make_budget(
                tenant="default", scope="agent", limits={"tool_calls": 5}, id="of-agents"
            )
        [session] = [one for one in boss.sessions(is_open=True) if one.name == "watched"]
        calls = list(boss.calls(session=session.id))
        [balance] = boss.balances(session=session.id, budget="calls")
        frozen = boss.freeze(session.id)
        resumed = boss.resume(session.id)
        killed = boss.kill(session.id)
        bill = boss.session(session.id).bill
        waiting = list(boss.approvals(state="pending"))

    assert (made.limits, changed.limits) == ({"tool_calls": 500}, {"tool_calls": 400})
    assert {"calls", "of-agents"} <= listed
    assert (stale.value.status, gone.value.status) == (412, 409)
    assert [one.id for one in calls] == [call]
    assert (balance.used, balance.session_name) == (1, f"{session.agent}/watched")
    assert frozen.session.frozen_at_ms is not None
    assert resumed.session.frozen_at_ms is None
    assert killed.session.closed_at_ms is not None
    assert bill.charged["tool_calls"] == bill.calls_total == 1
    assert waiting == []


@pytest.mark.anyio
async def test_a_program_with_a_loop_says_the_same(house: House) -> None:
    base, token = base_of(house), house.sidecar.token("agent")
    with anyio.fail_after(SECONDS_MAX):
        async with AsyncFlyball(base, token=token, session="looping") as flyball:
            await flyball.sessions.spawn("helper of looping", limits={"tool_calls": 2})
            note = await flyball.memory.write("The loop is green.")
            found = {one.index async for one in flyball.memory.listed()}
            left = (await flyball.sessions.read()).left("tool_calls")
            closed = await flyball.sessions.close("helper of looping")
        admin_base = house.sidecar.urls["admin"].removesuffix("/admin/v1")
        async with AsyncAdminClient(admin_base, token=house.sidecar.token("admin")) as boss:
            names = {one.name async for one in boss.sessions()}
            budgets = [one.id async for one in boss.budgets(tenant="default")]

    assert note.index in found
    assert left == 30 - 2 - 1
    assert closed.given_back == {"tool_calls": 2}
    assert {"looping", "helper of looping"} <= names
    assert "calls" in budgets


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Flyball, AsyncFlyball),
        (Sessions, AsyncSessions),
        (Memory, AsyncMemory),
        (AdminClient, AsyncAdminClient),
    ],
)
def test_both_clients_take_the_same(one: Any, other: Any) -> None:
    def taken(kind: Any) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") and name not in {"close", "aclose"}
        }

    assert taken(one) == taken(other)


def test_without_a_sidecar_the_error_says_how_to_start_one() -> None:
    with (
        Flyball("http://127.0.0.1:9", token="none", session="s") as flyball,
        pytest.raises(NotReachedError, match="flyball up"),
    ):
        flyball.sessions.read()
    with pytest.raises(NotReachedError, match="flyball run"):
        Flyball.of_environment({})


@pytest.mark.parametrize("page", [{}, {"items": [{}], "next": None}, {"items": 3, "next": None}])
def test_a_listing_of_another_version_is_told_apart_from_an_error_of_the_program(
    page: dict[str, object],
) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=page))
    with (
        AdminClient("http://sidecar", token="admin", transport=transport) as boss,
        pytest.raises(NotReachedError, match="of this version"),
    ):
        list(boss.budgets())
