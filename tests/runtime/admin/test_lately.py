import pytest

from governor.amounts import Amounts
from governor.call import CallRecord, CallStatus
from governor.denial import DenialReason, Denied
from governor.ids import CallId
from governor.scope import ScopeChain
from governor.target import CallKind
from memory_store.sessions import session_id_for
from tests.runtime.admin.admin_world import AGENT, SESSION, TENANT, World

pytestmark = pytest.mark.anyio

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
MONEY = {"id": "money", "tenant": TENANT, "scope": "tenant", "limits": {"cost_microusd": 1000}}
CALLS = {"id": "calls", "tenant": TENANT, "scope": "session", "limits": {"tool_calls": 2}}


async def denied(world: World, call_id: str, reason: DenialReason) -> None:
    """Keep the record of a call that was not admitted, as the gateway would."""
    await world.parts.store.calls.record(
        CallRecord(
            call_id=CallId(call_id),
            kind=CallKind.TOOL,
            name="files__read",
            chain=ScopeChain(tenant=TENANT, agent=AGENT, session=SESSION),
            turn=None,
            status=CallStatus.DENIED,
            started_at_ms=world.clock.now_ms(),
            ended_at_ms=world.clock.now_ms(),
            arguments="{}",
            backend="files",
            rule="default",
            policy_version="v1",
            estimate=Amounts({}),
            denial=reason,
        )
    )


@pytest.mark.requirement("overview.pace")
async def test_a_budget_that_burns_says_how_fast_and_when_nothing_is_left(world: World) -> None:
    await world.post("/budgets", MONEY)
    await world.run_call("c1")
    world.clock.at_ms += 10 * MINUTE_MS
    await world.run_call("c2")

    found = (await world.get("/overview")).json()

    (money,) = found["budgets"]
    assert (money["used"], money["limit"]) == (80, 1000)
    assert money["per_hour"] == 480, "80 in ten minutes"
    assert money["empties_at_ms"] == world.clock.at_ms + 920 * HOUR_MS // 480


async def test_what_was_charged_more_than_an_hour_ago_is_no_pace(world: World) -> None:
    await world.post("/budgets", MONEY)
    await world.run_call("c1")
    world.clock.at_ms += HOUR_MS + MINUTE_MS

    (money,) = (await world.get("/overview")).json()["budgets"]

    assert (money["used"], money["per_hour"], money["empties_at_ms"]) == (40, 0, None)


async def test_the_fullest_budget_stands_first_with_its_session_by_name(world: World) -> None:
    await world.post("/budgets", MONEY)
    await world.post("/budgets", CALLS)
    await world.run_call("c1")

    first, second = (await world.get("/overview", params={"tenant": TENANT})).json()["budgets"]

    assert (first["budget_id"], first["used"], first["limit"]) == ("calls", 1, 2)
    assert first["session_name"] == f"{AGENT}/run-1"
    assert second["budget_id"] == "money"


@pytest.mark.requirement("overview.last-hour")
async def test_denials_of_the_last_hour_are_counted_by_their_reason(world: World) -> None:
    await denied(world, "old", DenialReason.LOOP_DETECTED)
    world.clock.at_ms += HOUR_MS + 1
    await denied(world, "d1", DenialReason.POLICY_DENIED)
    world.clock.at_ms += MINUTE_MS
    await denied(world, "d2", DenialReason.POLICY_DENIED)
    await denied(world, "d3", DenialReason.BUDGET_EXHAUSTED)
    await world.run_call("fine")

    found = (await world.get("/overview")).json()

    assert [(one["reason"], one["count"]) for one in found["denials"]] == [
        ("policy_denied", 2),
        ("budget_exhausted", 1),
    ]
    assert found["denials"][0]["last_at_ms"] == world.clock.at_ms
    assert found["calls"] == {"denied": 3, "ok": 1}
    assert found["cost_microusd"] == 40
    assert sum(minute["calls"] for minute in found["minutes"]) == 4
    assert len(found["minutes"]) in {60, 61}
    assert found["minutes"][-1]["denied"] == 2


async def test_what_runs_is_listed_with_whose_it_is_and_the_longest_first(world: World) -> None:
    await world.admit("c1")
    world.clock.at_ms += 5
    other = session_id_for(AGENT, "run-2")
    assert not isinstance(await world.admit("c2", session=other), Denied)

    found = (await world.get("/overview")).json()

    assert found["running_total"] == 2
    assert [(one["call_id"], one["started_at_ms"]) for one in found["running"]] == [
        ("c1", world.clock.at_ms - 5),
        ("c2", world.clock.at_ms),
    ]
    assert found["running"][0]["session_name"] == f"{AGENT}/run-1"
    assert found["sessions_open"] == 2


async def test_an_overview_of_one_tenant_or_agent_has_nothing_of_others(world: World) -> None:
    await world.post("/tenants", {"id": "other", "name": "Other"})
    await world.post("/budgets", MONEY)
    await world.run_call("c1")
    await world.admit("c2")

    other = (await world.get("/overview", params={"tenant": "other"})).json()
    unknown = await world.get("/overview", params={"tenant": "nobody"})
    mine = (await world.get("/overview", params={"agent": AGENT})).json()

    assert (other["budgets"], other["calls"], other["running"]) == ([], {}, [])
    assert unknown.status_code == 404
    assert (mine["calls"], mine["running_total"]) == ({"ok": 1}, 1)
