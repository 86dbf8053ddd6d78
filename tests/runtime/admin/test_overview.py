from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from tests.runtime.admin.admin_world import ADMIN, TENANT, World

pytestmark = pytest.mark.anyio

BUDGET = {"id": "b", "tenant": TENANT, "scope": "tenant", "limits": {"tool_calls": 5}}


async def test_the_policy_in_force_is_shown_with_its_version(world: World) -> None:
    policy = (await world.get("/policies")).json()

    assert policy["version"] == "v1"
    assert [(rule["name"], rule["allow"]) for rule in policy["rules"]] == [("no-shell", False)]
    assert policy["rules"][0]["match"] == {"tool": "shell_run", "tenant": "*", "agent": "*"}
    assert policy["fallback"]["limits"]["wall_ms"] == 60_000


async def test_upstreams_are_shown_as_they_report_themselves(world: World) -> None:
    upstreams = (await world.get("/upstreams")).json()

    assert upstreams == {
        "items": [{"name": "files", "state": "ready", "tools": 3, "quarantined": 0}],
        "next": None,
    }


async def test_model_providers_are_shown_with_their_keys_by_name(world: World) -> None:
    providers = (await world.get("/providers")).json()["items"]

    assert providers == [{"name": "lab", "keys": [{"from": "LAB_KEY", "state": "out"}]}]


async def test_one_upstream_is_shown_with_its_last_words(world: World) -> None:
    found = await world.get("/upstreams/files")
    unknown = await world.get("/upstreams/other")

    assert found.json() == {
        "name": "files",
        "stderr": ["one line"],
        "quarantined": 0,
        "schema_faults": [],
    }
    assert unknown.status_code == 404
    assert "there is no upstream other" in unknown.json()["detail"]


async def test_each_change_is_in_the_audit_log_with_before_and_after(world: World) -> None:
    await world.post("/budgets", BUDGET)
    await world.put("/budgets/b", {"limits": {"tool_calls": 7}})
    await world.delete("/budgets/b")

    deleted, changed, made = (await world.get("/audit", params={"limit": 3})).json()["items"]

    actions = [(entry["action"], entry["target"]) for entry in (made, changed, deleted)]
    assert actions == [("budget.create", "b"), ("budget.put", "b"), ("budget.delete", "b")]
    assert {entry["actor"] for entry in (made, changed, deleted)} == {ADMIN}
    assert made["before"] is None
    assert changed["before"] == made["after"]
    assert changed["before"]["limits"] != changed["after"]["limits"]
    assert deleted["before"] == changed["after"]
    assert deleted["after"] is None


async def test_every_kind_of_change_is_audited_under_its_administrator(world: World) -> None:
    latest = (await world.get("/audit", params={"limit": 1})).json()["items"][0]["seq"]
    await world.run_call("call-1")
    await world.post("/tenants", {"id": "t"})
    await world.put("/tenants/t", {"name": "T"})
    await world.put("/tenants/t/quota", {"limits": {"tool_calls": 1}})
    await world.post("/principals", {"id": "p", "tenant": "t", "role": "agent"})
    await world.put("/principals/p", {"disabled": True})
    token = (await world.post("/principals/p/tokens")).json()["id"]
    token = (await world.post(f"/principals/p/tokens/{token}/rotate")).json()["id"]
    await world.delete(f"/principals/p/tokens/{token}")
    session = (await world.get("/sessions")).json()["items"][0]["id"]
    await world.post(f"/sessions/{session}/kill")

    entries = (await world.get("/audit")).json()["items"]

    new = [entry for entry in reversed(entries) if entry["seq"] > latest]
    assert {entry["actor"] for entry in new} == {ADMIN}
    assert [entry["action"] for entry in new] == [
        "tenant.create",
        "tenant.put",
        "quota.put",
        "principal.create",
        "principal.put",
        "token.issue",
        "token.revoke",
        "token.issue",
        "token.revoke",
        "session.close",
    ]


async def test_a_refused_change_is_not_in_the_audit_log(world: World) -> None:
    before = (await world.get("/audit")).text

    await world.post("/budgets", BUDGET | {"tenant": "nobody"})
    await world.post("/tenants", {"id": TENANT})
    await world.put("/budgets/none", {"limits": {"tool_calls": 1}})

    assert (await world.get("/audit")).text == before


async def test_the_audit_log_comes_in_pages(world: World) -> None:
    for number in range(5):
        await world.post("/tenants", {"id": f"t{number}"})

    first = (await world.get("/audit", params={"limit": 3})).json()
    rest = (await world.get("/audit", params={"limit": 200, "cursor": first["next"]})).json()

    seqs = [entry["seq"] for entry in first["items"] + rest["items"]]
    assert seqs == list(range(max(seqs), 0, -1))
    assert rest["next"] is None


async def test_changes_survive_a_restart(
    open_world: Callable[[], AbstractAsyncContextManager[World]],
) -> None:
    async with open_world() as world:
        await world.post("/tenants", {"id": "globex"})
        await world.put("/tenants/globex/quota", {"limits": {"tool_calls": 9}})
        await world.post("/budgets", BUDGET)
        await world.put("/budgets/b", {"limits": {"tool_calls": 7}})
        await world.post("/principals", {"id": "bob", "tenant": "globex", "role": "admin"})
        secret = (await world.post("/principals/bob/tokens")).json()["secret"]
        paths = ["/tenants/globex", "/tenants/globex/quota", "/budgets/b", "/principals/bob"]
        before = {path: (await world.get(path)).json() for path in paths}

    async with open_world() as world:
        after = {path: (await world.get(path, token=secret)).json() for path in paths}

    assert after == before
