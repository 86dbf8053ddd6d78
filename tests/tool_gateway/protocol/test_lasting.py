"""Sessions that nobody comes back to are bounded in number."""

from typing import Any

import httpx
import pytest

from tests.tool_gateway.protocol.stage import stage
from tool_gateway.front import lasting

pytestmark = pytest.mark.anyio

VERSION = "2025-06-18"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": VERSION,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


async def opened(client: httpx.AsyncClient, url: str) -> str:
    answer = await client.post(url, json=HELLO)
    assert answer.status_code == 200, answer.text
    return answer.headers["mcp-session-id"]


async def pinged(client: httpx.AsyncClient, url: str, session: str) -> int:
    headers = {"mcp-session-id": session, "mcp-protocol-version": VERSION}
    return (await client.post(url, json=PING, headers=headers)).status_code


@pytest.mark.requirement("sessions.memory-is-bounded")
async def test_the_session_that_rested_longest_gives_way_to_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lasting, "KEPT_MAX", 3)
    async with stage() as on, a_client() as client:
        first, second, third = [await opened(client, on.url) for _ in range(3)]
        seen = await pinged(client, on.url, first)
        fourth = await opened(client, on.url)
        found = [await pinged(client, on.url, one) for one in (first, second, third, fourth)]

    assert seen == 200
    assert found == [200, 404, 200, 200]


async def test_who_opens_most_loses_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasting, "KEPT_MAX", 3)
    async with stage() as on, a_client() as ada, a_client(headers={"x-who": "bob"}) as bob:
        oldest = await opened(ada, on.url)
        many = [await opened(bob, on.url) for _ in range(4)]
        found = await pinged(ada, on.url, oldest)
        left = [await pinged(bob, on.url, one) for one in many]

    assert found == 200
    assert left == [404, 404, 200, 200]


async def test_a_session_with_an_open_stream_does_not_give_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lasting, "KEPT_MAX", 1)
    async with stage() as on, a_client() as client:
        listening = await opened(client, on.url)
        headers = {"mcp-session-id": listening, "mcp-protocol-version": VERSION}
        async with client.stream("GET", on.url, headers=headers) as stream:
            others = [await opened(client, on.url) for _ in range(2)]
            found = [await pinged(client, on.url, one) for one in (listening, *others)]

    assert stream.status_code == 200
    assert found == [200, 404, 200]


def a_client(**more: Any) -> httpx.AsyncClient:
    headers = {"accept": "application/json, text/event-stream", **more.pop("headers", {})}
    return httpx.AsyncClient(headers=headers, timeout=60, trust_env=False, **more)
