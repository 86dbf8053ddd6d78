"""Who is let in on the agents' listener, and as whom."""

import json
from collections.abc import Awaitable, Callable

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from governor.ids import PrincipalId, TenantId
from memory_store.errors import StoreUnavailableError
from memory_store.identities import Identity, Role
from runtime.agents import AgentAuth
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import Caller

pytestmark = pytest.mark.anyio

TENANT = TenantId("acme")
AGENT = PrincipalId("ada")
TOKEN = "fbt_made-up"


def identity(role: Role) -> Identity:
    return Identity(tenant=TENANT, principal=AGENT, name="Ada", role=role, token_id="tok_1")


async def known_agent(secret: str) -> Identity | None:
    return identity(Role.AGENT) if secret == TOKEN else None


async def known_admin(_secret: str) -> Identity | None:
    return identity(Role.ADMIN)


async def nobody_is_asked(_secret: str) -> Identity | None:
    raise AssertionError("authentication is off")


async def broken_store(_secret: str) -> Identity | None:
    raise StoreUnavailableError


async def who_am_i(scope: Scope, receive: Receive, send: Send) -> None:
    caller: Caller = scope[CALLER_KEY]
    shown = [caller.tenant, caller.agent, caller.token_id]
    await JSONResponse(shown)(scope, receive, send)


async def ask(
    authenticate: Callable[[str], Awaitable[Identity | None]],
    *headers: tuple[str, str],
    open_to: Caller | None = None,
) -> httpx.Response:
    app = AgentAuth(who_am_i, authenticate=authenticate, open_to=open_to)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://agents") as client:
        return await client.post("/mcp", headers=list(headers))


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_a_token_names_tenant_agent_and_token(scheme: str) -> None:
    answer = await ask(known_agent, ("Authorization", f"{scheme} {TOKEN}"))

    assert answer.json() == [TENANT, AGENT, "tok_1"]


@pytest.mark.requirement("input.unknown-principal-401")
@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("Authorization", ""),),
        (("Authorization", "Bearer"),),
        (("Authorization", "Bearer fbt_wrong"),),
        (("Authorization", TOKEN),),
        (("Authorization", f"Basic {TOKEN}"),),
        (("Authorization", f"Bearer {TOKEN} and more"),),
        (("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {TOKEN}")),
        (("x-api-key", ""),),
        (("x-api-key", "sk-ant-of-the-provider"),),
        (("x-api-key", TOKEN), ("x-api-key", TOKEN)),
        (("Authorization", "Bearer fbt_wrong"), ("x-api-key", TOKEN)),
    ],
)
async def test_a_request_without_exactly_one_known_token_is_answered_401(
    headers: tuple[tuple[str, str], ...],
) -> None:
    answer = await ask(known_agent, *headers)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:flyball:problem:unauthenticated"
    assert "flyball token" in answer.json()["detail"]


async def test_a_token_may_come_as_the_key_that_anthropics_clients_send() -> None:
    answer = await ask(known_agent, ("x-api-key", TOKEN))

    assert answer.json() == [TENANT, AGENT, "tok_1"]


async def test_a_client_that_sends_a_token_and_a_providers_key_is_known_by_its_token() -> None:
    headers = (("Authorization", f"Bearer {TOKEN}"), ("x-api-key", "sk-ant-of-the-provider"))

    answer = await ask(known_agent, *headers)

    assert answer.json() == [TENANT, AGENT, "tok_1"]


async def test_an_administrators_token_is_answered_403() -> None:
    answer = await ask(known_admin, ("Authorization", f"Bearer {TOKEN}"))

    assert answer.status_code == 403
    assert "administrator" in answer.json()["detail"]


async def test_a_store_that_does_not_answer_lets_nobody_in() -> None:
    answer = await ask(broken_store, ("Authorization", f"Bearer {TOKEN}"))

    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:flyball:problem:store-unavailable"


async def test_a_refusal_never_repeats_the_token() -> None:
    answers = [
        await ask(authenticate, ("Authorization", "Bearer fbt_wrong"))
        for authenticate in (known_agent, known_admin, broken_store)
    ]

    assert [json.dumps(answer.json()).count("fbt_wrong") for answer in answers] == [0, 0, 0]


async def test_with_authentication_off_everybody_is_the_configured_agent() -> None:
    answer = await ask(
        nobody_is_asked,
        ("Authorization", "Bearer fbt_wrong"),
        open_to=Caller(tenant=TENANT, agent=AGENT, token_id="none"),
    )

    assert answer.json() == [TENANT, AGENT, "none"]
