"""Balances, page by page."""

from typing import Any

import pytest

from governor.ids import SessionId
from memory_store import standing
from runtime.admin.routes import balances
from tests.runtime.admin.admin_world import AGENT, SESSION, TENANT, World

pytestmark = pytest.mark.anyio

BUDGET: dict[str, Any] = {
    "id": "daily",
    "tenant": TENANT,
    "scope": "agent",
    "subject": AGENT,
    "limits": {"tool_calls": 100, "cost_microusd": 5_000_000},
    "window": {"every_s": 86_400},
}


async def all_balances(world: World, **filters: Any) -> list[dict[str, Any]]:
    """Every balance, read page after page."""
    found: list[dict[str, Any]] = []
    more: dict[str, Any] = {}
    for _ in range(60):
        page = (await world.get("/balances", params={**filters, **more})).json()
        found += page["items"]
        if page["next"] is None:
            return found
        more = {"cursor": page["next"]}
    raise AssertionError("the listing has no end")


def place(item: dict[str, Any]) -> tuple[str, ...]:
    return (item["tenant"], item["scope"], item["budget_id"], item["subject"], item["unit"])


@pytest.mark.parametrize("limit", [1, 2, 3, 200])
@pytest.mark.parametrize("filters", [{}, {"tenant": TENANT}])
async def test_balances_are_paged_with_those_of_tenants_and_agents_first(
    world: World, limit: int, filters: dict[str, str]
) -> None:
    each = {"id": "a-each", "tenant": TENANT, "scope": "session"}
    await world.post("/budgets", each | {"limits": {"tool_calls": 9, "cost_microusd": 900}})
    await world.post("/budgets", BUDGET | {"limits": {"tool_calls": 5, "cost_microusd": 700}})
    whole = {"id": "whole", "tenant": TENANT, "scope": "tenant"}
    await world.post("/budgets", whole | {"limits": {"tool_calls": 50}})
    for name in ("t1", "zz"):
        await world.post("/tenants", {"id": name})
    other = {"id": "z-other", "tenant": "zz", "scope": "tenant"}
    await world.post("/budgets", other | {"limits": {"turns": 1}})
    for call in ("call-1", "call-2"):
        await world.run_call(call)

    everything = await all_balances(world, **filters)
    paged = await all_balances(world, limit=limit, **filters)

    assert paged == everything
    assert len(set(map(place, paged))) == len(paged)
    scopes = [item["scope"] for item in paged]
    assert scopes == sorted(scopes, key=["tenant", "agent", "session"].index)
    assert ("z-other" in {item["budget_id"] for item in paged}) == (not filters)
    one = await all_balances(world, budget="daily", **filters)
    assert [item["unit"] for item in one] == ["tool_calls", "cost_microusd"]
    assert {i["scope"] for i in await all_balances(world, scope="session")} == {"session"}


async def test_a_cursor_of_balances_that_is_not_ours_is_refused(world: World) -> None:
    assert (await world.get("/balances", params={"cursor": "bm90"})).status_code == 422


async def test_very_many_tenants_without_budgets_are_passed_over_page_by_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("t1", "t2", "t3"):
        await world.post("/tenants", {"id": name})
    await world.post("/budgets", {**BUDGET, "tenant": "t3", "scope": "tenant", "subject": None})
    monkeypatch.setattr(balances, "_TENANTS_MAX", 1)
    monkeypatch.setattr(balances, "PAGE_LIMIT_MAX", 1)

    assert {item["tenant"] for item in await all_balances(world)} == {"t3"}


async def test_a_page_reads_no_more_sessions_than_it_can_show(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = {"id": "each", "tenant": TENANT, "scope": "session", "subject": None}
    await world.post("/budgets", each | {"limits": {"tool_calls": 9, "cost_microusd": 900}})
    for number in range(12):
        await world.run_call(f"call-{number}", session=SessionId(f"{SESSION[:-2]}{number:02}"))
    everything = await all_balances(world, budget="each")
    read: list[int] = []
    used = standing._used

    def counted(*asked: Any, **more: Any) -> Any:
        found = used(*asked, **more)
        read.append(len({subject for subject, _ in found}))
        return found

    monkeypatch.setattr(standing, "_used", counted)
    paged = await all_balances(world, budget="each", limit=3)
    one = await all_balances(world, budget="each", session=everything[0]["subject"])

    assert paged == everything
    assert len(everything) == 24
    assert 1 < max(read) <= 5
    assert one == everything[:2]
    assert read[-1] == 1
