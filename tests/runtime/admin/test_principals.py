from pathlib import Path

import pytest

from memory_store.audit import Actor
from memory_store.paging import PAGE_LIMIT_MAX
from tests.runtime.admin.admin_world import ADMIN, AGENT, TENANT, World

pytestmark = pytest.mark.anyio

FOUNDER = Actor(name="first-start")


async def test_a_principal_is_made_read_and_listed(world: World) -> None:
    body = {"id": "bob", "tenant": TENANT, "name": "Bob", "role": "agent"}

    made = await world.post("/principals", body)

    read = await world.get("/principals/bob")
    assert made.status_code == 201
    assert made.headers["ETag"] == read.headers["ETag"] == '"1"'
    assert made.json() == read.json()
    assert body.items() <= read.json().items()
    assert read.json()["disabled"] is False
    listed = (await world.get("/principals", params={"tenant": TENANT})).json()["items"]
    assert [item["id"] for item in listed] == ["bob", AGENT, ADMIN]


async def test_a_principal_without_an_id_is_given_one(world: World) -> None:
    made = (await world.post("/principals", {"tenant": TENANT, "role": "agent"})).json()

    assert made["id"].startswith("prn_")
    assert made["name"] == made["id"]


async def test_a_principal_belongs_to_a_tenant_that_exists(world: World) -> None:
    unknown = await world.post("/principals", {"id": "x", "tenant": "nobody", "role": "agent"})
    taken = await world.post("/principals", {"id": AGENT, "tenant": TENANT, "role": "agent"})

    assert (unknown.status_code, taken.status_code) == (404, 409)


async def test_a_role_is_agent_or_admin(world: World) -> None:
    response = await world.post("/principals", {"id": "x", "tenant": TENANT, "role": "king"})

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "role"


async def test_a_principal_is_disabled_and_enabled_with_if_match(world: World) -> None:
    path = f"/principals/{AGENT}"

    disabled = await world.put(path, {"disabled": True}, headers={"If-Match": '"1"'})
    stale = await world.put(path, {"disabled": False}, headers={"If-Match": '"1"'})

    assert (disabled.status_code, disabled.headers["ETag"]) == (200, '"2"')
    assert stale.status_code == 412
    assert (await world.get(path)).json()["disabled"] is True


async def test_a_principal_stays_with_its_tenant(world: World) -> None:
    changed = await world.put(f"/principals/{AGENT}", {"tenant": "other"})

    assert changed.status_code == 422
    assert changed.json()["errors"][0]["field"] == "tenant"


async def test_a_secret_is_shown_once_and_stored_nowhere(world: World) -> None:
    issued = await world.post(f"/principals/{AGENT}/tokens")

    secret = issued.json()["secret"]
    listed = await world.get(f"/principals/{AGENT}/tokens")
    assert issued.status_code == 201
    assert issued.headers["Cache-Control"] == "no-store"
    assert listed.json()["items"][0].keys() == {
        "id",
        "principal",
        "last_four",
        "created_at_ms",
        "expires_at_ms",
        "revoked_at_ms",
    }
    assert secret not in listed.text
    assert secret not in (await world.get("/audit")).text
    assert not _is_in_a_file(world.state_dir, secret)


async def test_a_token_works_until_it_is_revoked(world: World) -> None:
    issued = (await world.post(f"/principals/{ADMIN}/tokens")).json()
    before = await world.get("/tenants", token=issued["secret"])

    revoked = await world.delete(f"/principals/{ADMIN}/tokens/{issued['id']}")

    assert (before.status_code, revoked.status_code) == (200, 204)
    assert (await world.get("/tenants", token=issued["secret"])).status_code == 401
    listed = (await world.get(f"/principals/{ADMIN}/tokens")).json()["items"]
    (mine,) = [item for item in listed if item["id"] == issued["id"]]
    assert mine["revoked_at_ms"] == world.clock.now_ms()


async def test_revoking_twice_is_no_error(world: World) -> None:
    issued = (await world.post(f"/principals/{AGENT}/tokens")).json()
    path = f"/principals/{AGENT}/tokens/{issued['id']}"

    answers = [await world.delete(path), await world.delete(path)]

    assert [answer.status_code for answer in answers] == [204, 204]


async def test_a_rotated_token_is_replaced_at_once(world: World) -> None:
    old = (await world.post(f"/principals/{ADMIN}/tokens")).json()
    await world.get("/tenants", token=old["secret"])

    rotated = await world.post(f"/principals/{ADMIN}/tokens/{old['id']}/rotate")

    new = rotated.json()
    assert rotated.status_code == 201
    assert rotated.headers["Cache-Control"] == "no-store"
    assert (await world.get("/tenants", token=old["secret"])).status_code == 401
    assert (await world.get("/tenants", token=new["secret"])).status_code == 200


async def test_a_rotated_token_expires_when_the_old_one_would_have(world: World) -> None:
    at_ms = world.clock.now_ms() + 60_000
    tokens = f"/principals/{AGENT}/tokens"
    old = (await world.post(tokens, {"expires_at_ms": at_ms})).json()

    same = (await world.post(f"{tokens}/{old['id']}/rotate", {})).json()
    never = (await world.post(f"{tokens}/{same['id']}/rotate", {"expires_at_ms": None})).json()

    assert (old["expires_at_ms"], same["expires_at_ms"]) == (at_ms, at_ms)
    assert never["expires_at_ms"] is None


async def test_a_token_cannot_expire_before_it_begins(world: World) -> None:
    now = {"expires_at_ms": world.clock.now_ms()}

    response = await world.post(f"/principals/{AGENT}/tokens", now)

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "expires_at_ms"


async def test_a_token_is_found_only_at_its_own_principal(world: World) -> None:
    issued = (await world.post(f"/principals/{AGENT}/tokens")).json()
    elsewhere = f"/principals/{ADMIN}/tokens/{issued['id']}"

    answers = [await world.delete(elsewhere), await world.post(f"{elsewhere}/rotate")]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert (await world.get("/tenants", token=issued["secret"])).status_code == 403


async def test_tokens_of_an_unknown_principal_are_404(world: World) -> None:
    path = "/principals/nobody/tokens"

    answers = [await world.get(path), await world.post(path), await world.delete(f"{path}/x")]

    assert [answer.status_code for answer in answers] == [404, 404, 404]


async def test_the_oldest_of_very_many_tokens_is_listed_and_revoked(world: World) -> None:
    store, now_ms = world.parts.store, world.clock.now_ms()
    path = f"/principals/{ADMIN}/tokens"
    oldest = await store.principals.issue_token(
        ADMIN, expires_at_ms=None, by=FOUNDER, now_ms=now_ms - 1
    )
    for _ in range(PAGE_LIMIT_MAX + 1):
        await store.principals.issue_token(ADMIN, expires_at_ms=None, by=FOUNDER, now_ms=now_ms)

    first = (await world.get(path)).json()
    second = (await world.get(path, params={"cursor": first["next"]})).json()
    revoked = await world.delete(f"{path}/{oldest.token_id}")

    listed = [item["id"] for item in (*first["items"], *second["items"])]
    assert (len(first["items"]), second["next"]) == (PAGE_LIMIT_MAX, None)
    assert listed[-1] == oldest.token_id
    assert len(set(listed)) == len(listed) == PAGE_LIMIT_MAX + 3  # one is the world's own
    assert revoked.status_code == 204
    assert (await world.get("/tenants", token=oldest.secret)).status_code == 401


@pytest.mark.parametrize("way", ["revoked", "expired"])
async def test_a_token_that_is_accepted_no_more_cannot_be_rotated(world: World, way: str) -> None:
    path = f"/principals/{AGENT}/tokens"
    at_ms = world.clock.now_ms() + 60_000
    issued = (await world.post(path, {"expires_at_ms": at_ms})).json()
    if way == "revoked":
        await world.delete(f"{path}/{issued['id']}")
    else:
        world.clock.at_ms = at_ms

    answers = [
        await world.post(f"{path}/{issued['id']}/rotate", body)
        for body in (None, {"expires_at_ms": None})
    ]

    for answer in answers:
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:flyball:problem:token-ended"
        assert "issue a new one" in answer.json()["detail"]


def _is_in_a_file(folder: Path, text: str) -> bool:
    return any(text.encode() in p.read_bytes() for p in folder.rglob("*") if p.is_file())
