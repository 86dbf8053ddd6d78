import anyio
import pytest

from tests.runtime.admin.admin_world import TENANT, World

pytestmark = pytest.mark.anyio


async def test_a_tenant_is_made_read_and_listed(world: World) -> None:
    made = await world.post("/tenants", {"id": "globex", "name": "Globex Corp"})

    read = await world.get("/tenants/globex")
    listed = await world.get("/tenants")
    assert made.status_code == 201
    assert made.headers["Location"] == "/admin/v1/tenants/globex"
    assert made.headers["ETag"] == read.headers["ETag"] == '"1"'
    assert read.json() == made.json()
    assert read.json()["name"] == "Globex Corp"
    assert [item["id"] for item in listed.json()["items"]] == ["acme", "globex"]
    assert listed.json()["next"] is None


async def test_a_tenant_without_a_name_is_called_by_its_id(world: World) -> None:
    made = await world.post("/tenants", {"id": "globex"})

    assert made.json()["name"] == "globex"


async def test_an_id_that_is_taken_is_409(world: World) -> None:
    again = await world.post("/tenants", {"id": TENANT})

    assert again.status_code == 409
    assert again.json()["title"] == "Already exists"


async def test_what_a_change_leaves_out_stays(world: World) -> None:
    changed = await world.put(f"/tenants/{TENANT}", {"disabled": False})

    assert changed.status_code == 200
    assert changed.json()["name"] == "Acme"
    assert changed.json()["version"] == 2
    assert changed.headers["ETag"] == '"2"'


async def test_a_tenant_can_be_put_back_as_it_was_read(world: World) -> None:
    read = (await world.get(f"/tenants/{TENANT}")).json()

    changed = await world.put(f"/tenants/{TENANT}", read | {"name": "Acme Inc"})

    assert (changed.status_code, changed.json()["name"]) == (200, "Acme Inc")


async def test_the_id_of_a_tenant_stays(world: World) -> None:
    changed = await world.put(f"/tenants/{TENANT}", {"id": "other"})

    assert changed.status_code == 422
    assert changed.json()["errors"][0]["field"] == "id"


async def test_a_disabled_tenant_locks_its_agents_and_administrators_out(world: World) -> None:
    await world.post("/tenants", {"id": "globex"})
    await world.post("/principals", {"id": "bob", "tenant": "globex", "role": "admin"})
    secret = (await world.post("/principals/bob/tokens")).json()["secret"]
    before = await world.get("/tenants", token=secret)

    await world.put("/tenants/globex", {"disabled": True})

    assert before.status_code == 200
    assert (await world.get("/tenants", token=secret)).status_code == 401


async def test_a_change_for_another_version_is_412_and_changes_nothing(world: World) -> None:
    await world.put(f"/tenants/{TENANT}", {"name": "Second"})

    late = await world.put(f"/tenants/{TENANT}", {"name": "Late"}, headers={"If-Match": '"1"'})

    assert late.status_code == 412
    assert late.json()["actual"] == 2
    assert (await world.get(f"/tenants/{TENANT}")).json()["name"] == "Second"


@pytest.mark.parametrize("tag", ['"1"', "*", '"7", "1"', "1"])
async def test_a_change_for_the_present_version_is_stored(world: World, tag: str) -> None:
    changed = await world.put(f"/tenants/{TENANT}", {"name": "New"}, headers={"If-Match": tag})

    assert changed.status_code == 200


@pytest.mark.parametrize("tag", ['W/"1"', '"2"', "", '"one"'])
async def test_a_tag_that_does_not_strongly_match_is_412(world: World, tag: str) -> None:
    changed = await world.put(f"/tenants/{TENANT}", {"name": "New"}, headers={"If-Match": tag})

    assert changed.status_code == 412


async def test_changes_for_any_version_are_all_stored_when_they_race(world: World) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                change = {"name": f"name-{number}"}
                tasks.start_soon(world.put, f"/tenants/{TENANT}", change)

    assert (await world.get(f"/tenants/{TENANT}")).json()["version"] == 5


async def test_a_quota_is_set_read_and_versioned(world: World) -> None:
    missing = await world.get(f"/tenants/{TENANT}/quota")
    limits = {"limits": {"tool_calls": 100}, "window": {"every_s": 3600}}

    put = await world.put(f"/tenants/{TENANT}/quota", limits)

    read = await world.get(f"/tenants/{TENANT}/quota")
    assert missing.status_code == 404
    assert put.status_code == 200
    assert put.headers["ETag"] == read.headers["ETag"] == '"1"'
    assert read.json() == {"tenant": TENANT, **limits, "version": 1}


async def test_a_quota_for_another_version_is_412(world: World) -> None:
    path = f"/tenants/{TENANT}/quota"
    await world.put(path, {"limits": {"tool_calls": 100}})
    await world.put(path, {"limits": {"tool_calls": 90}}, headers={"If-Match": '"1"'})

    late = await world.put(path, {"limits": {"tool_calls": 80}}, headers={"If-Match": '"1"'})

    assert late.status_code == 412
    assert (await world.get(path)).json()["limits"] == {"tool_calls": 90}


async def test_a_quota_of_an_unknown_tenant_is_404(world: World) -> None:
    response = await world.put("/tenants/nobody/quota", {"limits": {"tool_calls": 1}})

    assert response.status_code == 404


async def test_what_a_quota_leaves_out_stays(world: World) -> None:
    path = f"/tenants/{TENANT}/quota"
    await world.put(path, {"limits": {"tool_calls": 100}, "window": {"every_s": 3600}})

    limits = await world.put(path, {"limits": {"tool_calls": 90}})
    window = await world.put(path, {"window": {"every_s": 60}})

    assert (limits.json()["limits"], limits.json()["window"]) == (
        {"tool_calls": 90},
        {"every_s": 3600},
    )
    assert (window.json()["limits"], window.json()["window"]) == (
        {"tool_calls": 90},
        {"every_s": 60},
    )


async def test_a_first_quota_has_limits(world: World) -> None:
    response = await world.put(f"/tenants/{TENANT}/quota", {"window": {"every_s": 60}})

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "limits"


async def test_a_quota_that_changes_nothing_keeps_its_version(world: World) -> None:
    path = f"/tenants/{TENANT}/quota"
    await world.put(path, {"limits": {"tool_calls": 100}})

    again = await world.put(path, {"limits": {"tool_calls": 100}})

    assert (again.status_code, again.json()["version"]) == (200, 1)


async def test_a_quota_below_a_budget_names_it_and_is_set(world: World) -> None:
    for name, calls in (("low", 10), ("high", 500)):
        body = {"id": name, "tenant": TENANT, "scope": "agent", "limits": {"tool_calls": calls}}
        await world.post("/budgets", body)

    put = await world.put(f"/tenants/{TENANT}/quota", {"limits": {"tool_calls": 100}})

    assert put.json()["limits"] == {"tool_calls": 100}
    (warning,) = put.json()["warnings"]
    assert warning.startswith("budget high: tool_calls = 500 stands above the quota of 100")


async def test_a_tenant_without_a_quota_is_told_apart_from_no_tenant(world: World) -> None:
    none = await world.get(f"/tenants/{TENANT}/quota")
    nobody = await world.get("/tenants/nobody/quota")

    assert (none.status_code, none.json()["detail"]) == (404, "this tenant has no quota")
    assert (nobody.status_code, nobody.json()["detail"]) == (404, "there is no tenant nobody")


@pytest.mark.parametrize("path", ["/tenants/acme", "/tenants/acme/quota", "/budgets/b"])
async def test_a_body_of_an_older_version_is_412(world: World, path: str) -> None:
    body = {"id": "b", "tenant": TENANT, "scope": "agent", "limits": {"tool_calls": 5}}
    await world.post("/budgets", body)
    await world.put("/tenants/acme/quota", {"limits": {"tool_calls": 100}})
    old = (await world.get(path)).json()
    await world.put(path, {"name": "B"} if path == "/tenants/acme" else {"limits": {"turns": 9}})

    late = await world.put(path, old)

    assert late.status_code == 412
    assert (late.json()["expected"], late.json()["actual"]) == (1, 2)


async def test_a_budget_that_a_change_leaves_as_it_was_keeps_its_version(world: World) -> None:
    body = {"id": "b", "tenant": TENANT, "scope": "agent", "limits": {"tool_calls": 5}}
    await world.post("/budgets", body)

    for change in ({}, {"limits": {"tool_calls": 5}}):
        assert (await world.put("/budgets/b", change)).json()["version"] == 1


async def test_balances_of_no_tenant_are_404(world: World) -> None:
    response = await world.get("/balances?tenant=nope")

    assert (response.status_code, response.json()["detail"]) == (404, "there is no tenant nope")
