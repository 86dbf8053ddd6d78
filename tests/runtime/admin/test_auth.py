import pytest

from tests.runtime.admin.admin_world import ADMIN, AGENT, TENANT, World

pytestmark = pytest.mark.anyio

PROBLEM = "application/problem+json"
ANY_ROUTE = ["/tenants", "/audit", "/openapi.json", "/nothing-here", "/budgets/unknown"]


@pytest.mark.parametrize("path", ANY_ROUTE)
async def test_without_a_token_nothing_is_told_not_even_what_exists(
    world: World, path: str
) -> None:
    response = await world.client.get(f"/admin/v1{path}")

    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.headers["Content-Type"] == PROBLEM
    assert response.json()["type"] == "urn:flyball:problem:unauthenticated"


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "Bearer fbt_made-up", "Basic cm9vdDpyb290", "fbt_x", "Bearer \xe9"],
)
async def test_an_authorization_that_proves_nothing_is_401(world: World, value: str) -> None:
    headers = {b"Authorization": value.encode("latin-1")}

    response = await world.client.get("/admin/v1/tenants", headers=headers)

    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ANY_ROUTE)
async def test_an_agents_token_never_opens_it(world: World, path: str) -> None:
    response = await world.get(path, token=world.agent_secret)

    assert response.status_code == 403
    assert response.headers["Content-Type"] == PROBLEM
    assert response.json()["title"] == "Forbidden"


async def test_an_agents_token_changes_nothing(world: World) -> None:
    response = await world.post("/tenants", {"id": "mine"}, token=world.agent_secret)

    assert response.status_code == 403
    assert (await world.get("/tenants/mine")).status_code == 404


async def test_two_authorizations_prove_nothing(world: World) -> None:
    headers = [("Authorization", f"Bearer {world.admin_secret}"), ("Authorization", "Bearer x")]

    response = await world.client.get("/admin/v1/tenants", headers=headers)

    assert response.status_code == 401


async def test_an_administrators_token_opens_it_whatever_the_case_of_the_scheme(
    world: World,
) -> None:
    headers = {"Authorization": f"bEARER {world.admin_secret}"}

    response = await world.client.get("/admin/v1/tenants", headers=headers)

    assert response.status_code == 200


async def test_an_unproven_caller_learns_nothing_about_their_body(world: World) -> None:
    response = await world.client.post("/admin/v1/budgets", content=b"{" * 100_000)

    assert response.status_code == 401


async def test_a_token_opens_nothing_from_the_millisecond_it_expires_at(world: World) -> None:
    expires_at_ms = world.clock.now_ms() + 1000
    issued = await world.post(f"/principals/{ADMIN}/tokens", {"expires_at_ms": expires_at_ms})
    secret = issued.json()["secret"]
    world.clock.at_ms = expires_at_ms - 1
    before = await world.get("/tenants", token=secret)
    world.clock.at_ms = expires_at_ms

    after = await world.get("/tenants", token=secret)

    assert (before.status_code, after.status_code) == (200, 401)


async def test_a_disabled_administrator_is_locked_out_at_once(world: World) -> None:
    await world.post("/principals", {"id": "second", "tenant": TENANT, "role": "admin"})
    secret = (await world.post("/principals/second/tokens")).json()["secret"]
    before = await world.get("/tenants", token=secret)

    await world.put("/principals/second", {"disabled": True})

    after = await world.get("/tenants", token=secret)
    assert (before.status_code, after.status_code) == (200, 401)


async def test_an_administrator_made_an_agent_is_one_at_once(world: World) -> None:
    await world.post("/principals", {"id": "second", "tenant": TENANT, "role": "admin"})
    secret = (await world.post("/principals/second/tokens")).json()["secret"]
    await world.get("/tenants", token=secret)

    await world.put("/principals/second", {"role": "agent"})

    assert (await world.get("/tenants", token=secret)).status_code == 403


async def test_an_agents_token_still_stands_for_the_agent(world: World) -> None:
    identity = await world.parts.store.principals.authenticate(
        world.agent_secret, now_ms=world.clock.now_ms()
    )

    assert identity is not None
    assert identity.principal == AGENT
