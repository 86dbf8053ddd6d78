"""What clients are told before they have a token, with a bad one, and with a good one."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from governor.ids import PrincipalId, TenantId
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.identities import Role
from memory_store.store import Store, open_store
from runtime.agents import AgentAuth, OpenDocument
from runtime.clock import SystemClock
from runtime.oauth.door import door_for
from runtime.oauth.resource import document_of, document_paths
from runtime.oauth.terms import ResourceTerms, ServerTerms
from tests.authority import Authority, authority
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import Caller

pytestmark = pytest.mark.anyio
RESOURCE = "https://flyball.example.org/mcp"
METADATA = "https://flyball.example.org/.well-known/oauth-protected-resource/mcp"
TENANT, ADA = TenantId("acme"), PrincipalId("ada")
ROOT = Actor(name="root")


async def who_am_i(scope: Scope, receive: Receive, send: Send) -> None:
    caller: Caller = scope[CALLER_KEY]
    bearer = None if caller.bearer is None else caller.bearer.token
    shown = [caller.tenant, caller.agent, caller.token_id, bearer, repr(caller)]
    await JSONResponse(shown)(scope, receive, send)


@dataclass
class World:
    """The door of a sidecar with a store, its authorization server, and a client before it."""

    there: Authority
    store: Store
    client: httpx.AsyncClient

    def token(self, **claims: Any) -> str:
        return self.there.token(**{"aud": RESOURCE, **claims})

    async def ask(self, token: str) -> httpx.Response:
        return await self.client.post("/mcp", headers={"Authorization": f"Bearer {token}"})


@asynccontextmanager
async def world_of(folder: Path, **more: Any) -> AsyncIterator[World]:
    async with authority() as there, open_store(folder, durability=Durability.PROCESS) as store:
        for tenant in (TENANT, TenantId("umbrella")):
            await store.tenants.create(tenant, name=tenant, by=ROOT, now_ms=0)
        await store.principals.create(
            ADA, tenant=TENANT, name="Ada", role=Role.AGENT, by=ROOT, now_ms=0
        )
        server = ServerTerms(
            issuer=there.issuer, audiences=frozenset({RESOURCE}), tenant=TENANT, **more
        )
        terms = ResourceTerms(resource=RESOURCE, servers=(server,), scopes=("mcp",))
        clock = SystemClock()
        app = AgentAuth(
            who_am_i,
            authenticate=lambda secret: store.principals.authenticate(
                secret, now_ms=clock.now_ms()
            ),
            open_to=None,
            oauth=door_for(terms, store.principals, clock=clock),
        )
        served = OpenDocument(document_of(terms), document_paths(terms), others=app)
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url="http://agents") as client:
            yield World(there, store, client)


@pytest.fixture
async def world(begun_state: Path) -> AsyncIterator[World]:
    async with world_of(begun_state) as made:
        yield made


def challenge_of(answer: httpx.Response) -> dict[str, str]:
    told = answer.headers["www-authenticate"]
    assert told.startswith("Bearer ")
    return dict(re.findall(r'(\w+)="([^"]*)"', told))


@pytest.mark.parametrize(
    "path",
    ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"],
)
async def test_anybody_may_read_where_tokens_come_from(world: World, path: str) -> None:
    answer = await world.client.get(path)

    assert answer.status_code == 200
    assert answer.json() == {
        "resource": RESOURCE,
        "authorization_servers": [world.there.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "Flyball",
        "scopes_supported": ["mcp"],
    }


async def test_a_request_without_a_token_is_told_where_to_get_one(world: World) -> None:
    answer = await world.client.post("/mcp")

    assert answer.status_code == 401
    assert challenge_of(answer) == {"resource_metadata": METADATA, "scope": "mcp"}


@pytest.mark.requirement("oauth.only-good-tokens")
@pytest.mark.parametrize(
    ("claims", "told"),
    [({"aud": "https://other"}, "the token is for another resource"), ({"exp": 1}, "expired")],
)
async def test_a_bad_token_is_told_why_and_not_repeated(
    world: World, claims: dict[str, Any], told: str
) -> None:
    token = world.token(**claims)

    answer = await world.ask(token)

    assert answer.status_code == 401
    challenge = challenge_of(answer)
    assert (challenge["error"], challenge["resource_metadata"]) == ("invalid_token", METADATA)
    assert told in challenge["error_description"]
    assert token not in answer.text
    assert token not in answer.headers["www-authenticate"]


@pytest.mark.requirement("oauth.only-good-tokens")
async def test_a_token_without_the_scopes_is_told_which_it_needs(world: World) -> None:
    answer = await world.ask(world.token(scope="files:read"))

    assert answer.status_code == 403
    challenge = challenge_of(answer)
    assert (challenge["error"], challenge["scope"]) == ("insufficient_scope", "mcp")


async def test_a_good_token_is_its_agents_and_is_in_no_repr(world: World) -> None:
    token = world.token(scope="mcp more")

    tenant, agent, token_id, bearer, shown = (await world.ask(token)).json()

    assert (tenant, agent, bearer) == ("acme", "ada", token)
    assert token_id.startswith("oauth_")
    assert token not in shown


async def test_a_renewed_token_goes_on_with_the_same_session(world: World) -> None:
    first = (await world.ask(world.token(jti="1"))).json()
    second = (await world.ask(world.token(jti="2"))).json()

    assert first[2] == second[2]
    assert first[3] != second[3]


async def test_flyballs_own_tokens_are_taken_beside_them(world: World) -> None:
    own = await world.store.principals.issue_token(ADA, expires_at_ms=None, by=ROOT, now_ms=0)

    answer = await world.ask(own.secret)

    assert answer.json()[:2] == ["acme", "ada"]
    assert answer.json()[3] is None
    assert world.there.seen == []


async def test_an_unknown_token_of_ours_is_challenged(world: World) -> None:
    answer = await world.ask("fbt_made-up")

    assert answer.status_code == 401
    assert challenge_of(answer)["error"] == "invalid_token"


@pytest.mark.requirement("oauth.only-good-tokens")
async def test_an_agent_that_is_switched_off_is_refused_with_a_token_that_was_taken_before(
    world: World,
) -> None:
    token = world.token()
    assert (await world.ask(token)).status_code == 200

    await world.store.principals.disable(ADA, by=ROOT, now_ms=1)

    refused = await world.ask(token)
    assert (refused.status_code, refused.json()["title"]) == (403, "Forbidden")


@pytest.mark.requirement("oauth.only-good-tokens")
async def test_a_good_token_of_nobody_here_is_refused(world: World) -> None:
    answer = await world.ask(world.token(sub="bob"))

    assert answer.status_code == 403
    assert "no agent bob of tenant acme" in answer.json()["detail"]


async def test_an_administrator_is_no_agent_with_such_a_token_either(world: World) -> None:
    await world.store.principals.create(
        PrincipalId("boss"), tenant=TENANT, name="Boss", role=Role.ADMIN, by=ROOT, now_ms=0
    )

    assert (await world.ask(world.token(sub="boss"))).status_code == 403


async def test_agents_are_made_at_first_sight_where_the_operator_says_so(tmp_path: Path) -> None:
    async with world_of(tmp_path / "state", makes_agents=True) as world:
        made = await world.ask(world.token(sub="auth0|5f7c"))
        again = await world.ask(world.token(sub="auth0|5f7c"))
        await world.store.principals.disable(PrincipalId(made.json()[1]), by=ROOT, now_ms=1)
        refused = await world.ask(world.token(sub="auth0|5f7c"))

    assert (made.status_code, again.status_code, refused.status_code) == (200, 200, 403)
    assert made.json()[1].startswith("o-")
    assert made.json()[1] == again.json()[1]


@pytest.mark.requirement("oauth.only-good-tokens")
async def test_an_agent_of_one_tenant_is_nobody_in_another(tmp_path: Path) -> None:
    async with world_of(tmp_path / "state", makes_agents=True, tenant_claim="org") as world:
        here = await world.ask(world.token(org="acme"))
        elsewhere = await world.ask(world.token(org="umbrella"))
        nowhere = await world.ask(world.token(org="nowhere", sub="eve"))

    assert [one.status_code for one in (here, elsewhere, nowhere)] == [200, 403, 403]


async def test_nobody_is_let_in_while_keys_cannot_be_had(world: World) -> None:
    world.there.is_down = True

    answer = await world.ask(world.token())

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "10"
    assert world.there.url not in json.dumps(answer.json())


def test_a_challenge_names_the_metadata_of_a_resource_at_the_root_too() -> None:
    server = ServerTerms(issuer="https://a", audiences=frozenset(), tenant=TENANT)
    terms = ResourceTerms(resource=RESOURCE, servers=(server,))
    root = replace(terms, resource="https://flyball.example.org")

    assert document_paths(root) == document_paths(terms)
