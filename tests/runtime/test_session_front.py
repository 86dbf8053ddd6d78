"""Sessions over HTTP for callers who may only read."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from governor.access import Access, AccessRule
from governor.ids import PrincipalId, TenantId
from governor.policy import Policy
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.identities import Role
from memory_store.store import Store, open_store
from runtime.clock import SystemClock
from runtime.router.feedback import Feedback
from runtime.session_front import SessionFront
from tests.tool_gateway.makers import RULE
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import Caller

pytestmark = pytest.mark.anyio
TENANT, ADA = TenantId("acme"), PrincipalId("ada")
BY = Actor(name="root")
SPAWN = {"parent": "run", "name": "child", "limits": {"tool_calls": 1}}


@pytest.fixture
async def store(begun_state: Path) -> AsyncIterator[Store]:
    async with open_store(begun_state, durability=Durability.PROCESS) as opened:
        await opened.tenants.create(TENANT, name="acme", by=BY, now_ms=1)
        await opened.principals.create(
            ADA, tenant=TENANT, name="ada", role=Role.AGENT, by=BY, now_ms=1
        )
        yield opened


def client_of(
    store: Store,
    *,
    is_read_only: bool = False,
    access: Access | None = None,
    pin: str | None = None,
) -> httpx.AsyncClient:
    policy = Policy(version="v", rules=(), fallback=RULE, access=access or Access())
    clock = SystemClock()
    feedback = Feedback(store.router_log, store.calls, clock=clock)
    front = SessionFront(store, clock=clock, policy=lambda: policy, feedback=feedback)
    app = Starlette(routes=front.routes())

    async def as_caller(scope: Scope, receive: Receive, send: Send) -> None:
        scope[CALLER_KEY] = Caller(
            tenant=TENANT, agent=ADA, token_id="t", is_read_only=is_read_only, pin=pin
        )
        await app(scope, receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(as_caller), base_url="http://agents")


@pytest.mark.requirement("access.read-only")
@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"is_read_only": True}, "has not the scopes"),
        ({"access": Access(rules=(AccessRule(name="look", is_read_only=True),))}, "rule 'look'"),
    ],
)
async def test_who_may_only_read_reads_a_session_and_divides_ends_and_judges_none(
    store: Store, terms: dict[str, Any], says: str
) -> None:
    async with client_of(store) as client:
        made = await client.post("/sessions/v1", json=SPAWN)
        child = f"/sessions/v1/{made.json()['id']}"

    async with client_of(store, **terms) as client:
        read = await client.get(child)
        refused = [
            await client.post("/sessions/v1", json={**SPAWN, "name": "other"}),
            await client.delete(child),
            await client.post(f"{child}/outcome", json={"success": True}),
        ]
    async with client_of(store) as client:
        after = await client.get(child)

    assert (made.status_code, read.status_code) == (201, 200)
    assert [one.status_code for one in refused] == [403, 403, 403]
    assert says in refused[0].json()["detail"]
    assert after.json()["closed_at_ms"] is None


@pytest.mark.requirement("run.key-is-pinned")
async def test_the_key_of_an_agent_finds_its_own_session_and_those_beneath_alone(
    store: Store,
) -> None:
    async with client_of(store) as client:
        made = [
            await client.post("/sessions/v1", json=SPAWN),
            await client.post("/sessions/v1", json={**SPAWN, "parent": "else", "name": "theirs"}),
        ]
        [child, theirs] = [one.json()["id"] for one in made]

    async with client_of(store, pin="run") as client:
        own = [await client.get(f"/sessions/v1/{one}") for one in ("run", "child", child)]
        below = await client.post(
            "/sessions/v1", json={**SPAWN, "parent": "child", "name": "grandchild"}
        )
        refused = [
            *[await client.get(f"/sessions/v1/{one}") for one in ("else", "theirs", theirs)],
            *[await client.delete(f"/sessions/v1/{one}") for one in ("else", "theirs", theirs)],
            await client.post("/sessions/v1/theirs/outcome", json={"success": True}),
            *[
                await client.post("/sessions/v1", json={**SPAWN, "parent": one, "name": "out"})
                for one in ("else", "theirs", theirs, "never seen")
            ],
        ]
        unknown = await client.get("/sessions/v1/unknown")
    async with client_of(store) as client:
        after = await client.get("/sessions/v1/theirs")

    assert [one.status_code for one in (*made, *own, below)] == [201, 201, 200, 200, 200, 201]
    assert {one.status_code for one in refused} == {unknown.status_code} == {404}
    assert refused[0].json()["detail"] == unknown.json()["detail"].replace("unknown", "else")
    assert after.json()["closed_at_ms"] is None


@pytest.mark.requirement("run.key-is-pinned")
async def test_the_key_of_an_agent_is_not_good_for_what_is_above_its_session(store: Store) -> None:
    async with client_of(store) as client:
        await client.post("/sessions/v1", json=SPAWN)

    async with client_of(store, pin="child") as client:
        above = await client.get("/sessions/v1/run")

    assert above.status_code == 404
