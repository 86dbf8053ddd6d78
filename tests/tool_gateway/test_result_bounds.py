"""What upstreams answer is bounded, over each transport and for each kind of answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.abc
import httpx2
import pytest

from tool_gateway.egress.reach import NAMED
from tool_gateway.upstreams import http as http_module
from tool_gateway.upstreams.bodies import SPARED_BYTES_MAX, SparingTransport
from tool_gateway.upstreams.http import UNFIT, contained_client
from tool_gateway.upstreams.opening import _plain_client

pytestmark = pytest.mark.anyio

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}
CHUNK = b"x" * 65_536


@dataclass
class Endless:
    """Answers every request with a head and a body that never ends."""

    head: bytes
    sent_bytes: int = 0
    url: str = ""

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                await stream.receive()
                await stream.send(self.head)
                while True:
                    await stream.send(CHUNK)
                    self.sent_bytes += len(CHUNK)
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                pass


@asynccontextmanager
async def endless(status: str, content_type: str, *more: str) -> AsyncIterator[Endless]:
    lines = [f"HTTP/1.1 {status}", f"content-type: {content_type}", *more, "", ""]
    server = Endless("\r\n".join(lines).encode())
    with anyio.fail_after(60):
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, server.serve)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            server.url = f"http://127.0.0.1:{port}/mcp"
            yield server
            tasks.cancel_scope.cancel()


@pytest.mark.requirement("upstream.answers-are-bounded")
async def test_json_without_an_end_is_given_up_at_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_module, "JSON_BYTES_MAX", 1_000_000)
    async with (
        endless("200 OK", "application/json") as server,
        contained_client({}, reach=NAMED) as client,
    ):
        answer = (await client.post(server.url, json=CALL)).json()

    assert answer["error"]["code"] == UNFIT
    assert "larger than 1000000 bytes" in answer["error"]["message"]


@pytest.mark.requirement("upstream.answers-are-bounded")
async def test_an_error_page_without_an_end_is_not_read() -> None:
    async with (
        endless("503 Service Unavailable", "text/html") as server,
        contained_client({}, reach=NAMED) as client,
    ):
        answer = (await client.post(server.url, json=CALL)).json()

    assert "HTTP 503" in answer["error"]["message"]


@pytest.mark.requirement("upstream.answers-are-bounded")
async def test_a_redirect_without_an_end_is_not_read() -> None:
    async with (
        endless("307 Temporary Redirect", "text/plain", "location: /elsewhere") as server,
        contained_client({}, reach=NAMED) as client,
    ):
        answer = await client.post(server.url, json=CALL)

    assert (answer.status_code, answer.content) == (307, b"")
    assert answer.headers["location"] == "/elsewhere"


@pytest.mark.requirement("upstream.answers-are-bounded")
async def test_what_the_old_transport_answers_to_a_post_is_not_read() -> None:
    async with (
        endless("202 Accepted", "text/plain") as server,
        _plain_client(reach=NAMED, wrap=None) as client,
    ):
        answer = await client.post(server.url, json=CALL)

    assert (answer.status_code, answer.content) == (202, b"")


async def test_an_ordinary_answer_is_read_so_that_its_connection_is_kept() -> None:
    connections = 0

    async def serve(stream: anyio.abc.SocketStream) -> None:
        nonlocal connections
        connections += 1
        async with stream:
            try:
                while True:
                    received = b""
                    while not received.endswith(b"{}"):
                        received += await stream.receive()
                    await stream.send(b"HTTP/1.1 202 Accepted\r\ncontent-length: 8\r\n\r\nAccepted")
            except anyio.EndOfStream:
                pass

    with anyio.fail_after(60):
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, serve)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            transport = SparingTransport(httpx2.AsyncHTTPTransport(), spare_posts=True)
            async with httpx2.AsyncClient(
                transport=transport, trust_env=False, timeout=60
            ) as client:
                for _ in range(3):
                    await client.post(f"http://127.0.0.1:{port}/", content=b"{}")
            tasks.cancel_scope.cancel()

    assert connections == 1
    assert len("Accepted") < SPARED_BYTES_MAX
