import pytest

from tests.runtime.admin.admin_world import TENANT, World

pytestmark = pytest.mark.anyio


async def test_thresholds_and_observed_denials_are_listed_page_by_page(world: World) -> None:
    budget = {"tenant": TENANT, "scope": "tenant", "limits": {"tool_calls": 2}}
    await world.post("/budgets", budget | {"id": "watched", "warn_at_permille": [500, 1000]})
    await world.post("/budgets", budget | {"id": "seen", "mode": "observe", "limits": {"turns": 0}})
    await world.run_call("call-1")
    await world.run_call("call-2")

    first = (await world.get("/notices", params={"limit": 3})).json()
    rest = (await world.get("/notices", params={"cursor": first["next"]})).json()

    latest, observed, earlier = first["items"]
    assert [(one["kind"], one["budget_id"]) for one in (observed, *rest["items"])] == [
        ("would_deny", "seen"),
        ("would_deny", "seen"),
    ]
    assert rest["next"] is None
    assert [one["detail"] for one in (latest, earlier)] == [
        {"at": 2, "limit": 2, "used": 2},
        {"at": 1, "limit": 2, "used": 1},
    ]
    assert (latest["kind"], latest["budget_id"], latest["call_id"]) == (
        "threshold",
        "watched",
        "call-2",
    )
    assert latest["delivered_at_ms"] is None
    assert (await world.get("/notices", params={"tenant": "other"})).json()["items"] == []
