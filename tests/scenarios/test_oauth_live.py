"""Tokens through a real sidecar: who comes with one, what upstreams get, and where it never is."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
import pytest
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls,
    extract_resource_metadata_from_www_auth,
)
from scenarios.process import SidecarProcess, denial_of, text_of

from tests.authority import Authority, authority, claims_in
from tests.tool_gateway.protocol.protected import Protected, protected

pytestmark = pytest.mark.anyio
RESOURCE = "https://flyball.example.org/mcp"
CLIENT_SECRET = "s3cret-of-flyball"
HEADER_SECRET = "s3cret-in-a-header"
SCRAPES = (
    *("upstreams", "calls", "audit", "principals", "sessions", "balances", "notices"),
    *("tenants", "policies", "approvals"),
)


@dataclass
class World:
    """A sidecar before three upstreams: a token of its own, each caller's, and a header."""

    there: Authority
    own: Protected
    callers: Protected
    header: Protected
    sidecar: SidecarProcess

    def token(self, sub: str, scope: str = "mcp mcp:write") -> str:
        return self.there.token(sub=sub, aud=RESOURCE, scope=scope)


def config_of(there: Authority, own: Protected, callers: Protected, header: Protected) -> str:
    client = f"""
client_id = "flyball"
client_secret_from = "OAUTH_LIVE_SECRET"
issuer = {json.dumps(there.issuer)}
"""
    return f"""
[oauth]
resource = "{RESOURCE}"
scopes = ["mcp"]
write_scopes = ["mcp:write"]

[[oauth.server]]
issuer = {json.dumps(there.issuer)}
make_agents = true

[[upstream]]
name = "own"
url = {json.dumps(own.url)}

[upstream.auth]
kind = "client_credentials"
{client}

[[upstream]]
name = "callers"
url = {json.dumps(callers.url)}

[upstream.auth]
kind = "token_exchange"
{client}

[[upstream]]
name = "header"
url = {json.dumps(header.url)}
headers_from = {{ Authorization = "OAUTH_LIVE_HEADER" }}
"""


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setenv("OAUTH_LIVE_SECRET", CLIENT_SECRET)
    monkeypatch.setenv("OAUTH_LIVE_HEADER", HEADER_SECRET)
    monkeypatch.setenv("FLYBALL_LOG_LEVEL", "DEBUG")
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(authority())
        ups = [
            (await stack.enter_async_context(protected(there, name=name)))[0]
            for name in ("own", "callers", "header")
        ]
        sidecar = SidecarProcess(folder=tmp_path, extra=config_of(there, *ups))
        await anyio.to_thread.run_sync(sidecar.start)
        try:
            yield World(there, *ups, sidecar)
        finally:
            await anyio.to_thread.run_sync(sidecar.stop)


def everything_written(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def everything_told(sidecar: SidecarProcess) -> str:
    """Return what the admin API and the metrics say."""
    async with sidecar.admin() as admin:
        answers = [await admin.get(path, params={"limit": 200}) for path in SCRAPES]
        root = sidecar.urls["admin"].partition("/admin")[0]
        answers.append(await admin.get(f"{root}/metrics"))
    assert {answer.status_code for answer in answers} <= {200, 422}
    return "\n".join(answer.text for answer in answers)


@pytest.mark.requirement("oauth.only-good-tokens")
async def test_a_client_finds_out_where_to_get_a_token_and_is_let_in_with_it(world: World) -> None:
    url = world.sidecar.urls["agents"]
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        refused = await client.post(url, json={})
        document = await client.get(
            url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        )

    assert refused.status_code == 401
    told = extract_resource_metadata_from_www_auth(refused)  # type: ignore[arg-type]
    assert told in build_protected_resource_metadata_discovery_urls(None, RESOURCE)
    assert document.json()["authorization_servers"] == [world.there.issuer]
    async with world.sidecar.agent("mine", token=world.token("ada")) as agent:
        assert text_of(await agent.call_tool("worker__echo", {"text": "in"})) == "in"


@pytest.mark.requirement("oauth.only-good-tokens")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_token_without_the_scopes_to_write_is_good_for_reading(
    world: World, mode: str
) -> None:
    token = world.token("eve", scope="mcp")
    async with world.sidecar.agent("hers", token=token, mode=mode) as agent:
        shown = {tool.name for tool in (await agent.list_tools()).tools}
        answer = await agent.call_tool("worker__echo", {"text": "in"})

    denial = denial_of(answer)
    assert denial is not None
    assert denial["reason"] == "read_only"
    assert "worker__echo" not in shown
    assert "governor_status" in shown


@pytest.mark.requirement("oauth.upstream-credentials")
async def test_each_upstream_is_sent_what_its_table_says(world: World) -> None:
    for who in ("ada", "bob"):
        async with world.sidecar.agent(f"of-{who}", token=world.token(who)) as agent:
            assert text_of(await agent.call_tool("own__echo", {"text": "1"})) == "1"
            assert text_of(await agent.call_tool("callers__echo", {"text": "2"})) == "2"

    of_own = {claims_in(str(token))["sub"] for token in world.own.tokens("tools/call")}
    of_callers = [claims_in(str(token))["sub"] for token in world.callers.tokens("tools/call")]
    assert (of_own, of_callers) == ({"flyball"}, ["ada", "bob"])
    assert {one.token for one in world.header.seen} == {HEADER_SECRET}


@pytest.mark.requirement("oauth.secrets-stay-here")
async def test_no_secret_is_written_logged_or_told_whatever_goes_wrong(world: World) -> None:
    sent, told = [world.token("ada")], []
    async with world.sidecar.agent("mine", token=sent[0]) as agent:
        for name in ("own__echo", "callers__echo", "worker__echo"):
            assert text_of(await agent.call_tool(name, {"text": "well"})) == "well"
        # Every token is taken back, and the server that issues them is gone.
        world.own.revoked.update(world.there.issued)
        world.callers.revoked.update(world.there.issued)
        world.there.is_down = True
        for name in ("own__echo", "callers__echo"):
            failed = await agent.call_tool(name, {"text": "badly"})
            assert failed.is_error
            told.append(text_of(failed))
    # The next caller cannot have its token exchanged.
    sent.append(world.token("bob"))
    async with world.sidecar.agent("his", token=sent[1]) as agent:
        told.append(text_of(await agent.call_tool("callers__echo", {"text": "badly"})))
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        sent.append(world.there.token(aud="https://other.example.org"))
        headers = {"Authorization": f"Bearer {sent[2]}"}
        refused = await client.post(world.sidecar.urls["agents"], json={}, headers=headers)
        told.append(refused.text + str(refused.headers))

    told.append(await everything_told(world.sidecar))
    await anyio.to_thread.run_sync(world.sidecar.stop)

    secrets = [CLIENT_SECRET, HEADER_SECRET, *world.there.issued, *sent]
    assert len(world.there.issued) >= 3
    written = everything_written(world.sidecar.folder)
    assert b"DEBUG" in written
    assert b"callers__echo" in written
    for secret in secrets:
        # A token's signature alone would do, and so would half of a secret's encoding.
        for part in (secret, secret.rpartition(".")[2]):
            assert part not in "\n".join(told)
            assert part.encode() not in written
