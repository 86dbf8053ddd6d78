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
from tool_gateway.upstreams.oauth.credentials import Credentials, credentials_for
from tool_gateway.upstreams.oauth.endpoint import LIFETIME_S_MAX, TokenEndpoint
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
