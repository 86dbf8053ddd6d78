"""What an upstream and its authorization server can bring about with what they say of tokens."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from starlette.responses import Response

from tests.authority import Authority, authority
from tests.tool_gateway.protocol.protected import a_client
from tool_gateway.egress.reach import NAMED
from tool_gateway.upstreams.fetching import Fetcher
from tool_gateway.upstreams.oauth import tokens
from tool_gateway.upstreams.oauth.challenge import Challenge
from tool_gateway.upstreams.oauth.credentials import Credentials, credentials_for
from tool_gateway.upstreams.oauth.endpoint import LIFETIME_S_MAX, SCOPES_MAX, TokenEndpoint
from tool_gateway.upstreams.oauth.terms import ClientCredentials

pytestmark = pytest.mark.anyio
URL = "https://files.example.org/mcp"


@dataclass
class World:
    """An authorization server, and what an upstream at `URL` is sent."""

    there: Authority
    credentials: Credentials


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with authority() as there:
        auth = ClientCredentials(client=a_client(issuer=there.issuer))
        found = credentials_for(auth, url=URL, reach=NAMED, fetcher=Fetcher())
        assert found is not None
        yield World(there, found)


@pytest.mark.parametrize("told", [10**400, -(10**400), 1e308, float("inf"), True, "x", []])
async def test_whatever_lifetime_is_told_a_token_is_good_for_a_bounded_time(
    world: World, told: object
) -> None:
    members = {"access_token": "abc", "token_type": "Bearer", "expires_in": told}
    body = json.dumps(members)
    world.there.answer = Response(body, media_type="application/json")
    client = a_client(issuer=world.there.issuer)
    endpoint = TokenEndpoint(client, url=URL, reach=NAMED, fetcher=Fetcher())

    issued = await endpoint.issued({"grant_type": "client_credentials"}, challenge=None)

    assert 0 <= issued.lifetime_s <= LIFETIME_S_MAX


async def refused(world: World, token: str | None, challenge: Challenge) -> str | None:
    """Return the token that follows the one that was refused; that one where there is none."""
    return await world.credentials.renewed(None, token, challenge) or token


@pytest.mark.requirement("oauth.refusals-are-bounded")
async def test_an_upstream_that_refuses_each_token_for_another_reason_gets_few(
    world: World,
) -> None:
    token = await world.credentials.token(None)

    for number in range(50):
        token = await refused(world, token, Challenge(status=403, scopes=(f"s{number}",)))

    assert len(world.there.asked) == 2
    assert world.there.asked[1]["scope"] == "s0"


@pytest.mark.requirement("oauth.refusals-are-bounded")
async def test_no_upstream_has_ever_more_scopes_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "PAUSE_S", 0.0)
    token = await world.credentials.token(None)

    for number in range(20):
        wanted = tuple(f"s{number}.{one}" for one in range(10))
        token = await refused(world, token, Challenge(status=403, scopes=wanted))

    assert max(len(form.get("scope", "").split()) for form in world.there.asked) == SCOPES_MAX
    assert len(world.there.asked) == 1 + 7  # no further ones once there is no room for a scope
