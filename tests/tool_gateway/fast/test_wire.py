"""The short way out, against a server that sends exactly the bytes a test tells it to."""

import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import pytest
from mcp.shared.exceptions import MCPError

from governor.ids import ToolName, UpstreamName
from tool_gateway.catalog import ToolEntry
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.upstreams import http1, wire
from tool_gateway.upstreams.origin import can_be_sent, origin_of
from tool_gateway.upstreams.spec import HttpSpec
from tool_gateway.upstreams.tool_calls import ToolCalls
from tool_gateway.upstreams.wire import Wire, wire_to

pytestmark = pytest.mark.anyio

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "flyball", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
TOOL = ToolName("up__tool")
TEXT = {"content": [{"type": "text", "text": "done"}]}
HANG_UP = b""
Script = Sequence[bytes]


def answer(body: object, *, status: str = "200 OK", **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"content-type": "application/json", "content-length": str(len(content)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content


def result(request_id: int = 1, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": members or TEXT}


def events(*messages: object) -> bytes:
    body = b"".join(
        b"event: message\r\ndata: %b\r\n\r\n" % json.dumps(m).encode() for m in messages
    )
    return answer(body, content_type="text/event-stream")


@dataclass
class Server:
    """Answers each request with the next script: parts to send, `HANG_UP` to close."""

    scripts: list[Script]
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    closed: anyio.Event = field(default_factory=anyio.Event)

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        self.connections += 1
        async with stream:
            try:
                while True:
                    self.requests.append(await self._request(stream))
                    for part in self.scripts.pop(0):
                        if part == HANG_UP:
                            return
                        await stream.send(part)
                        await anyio.lowlevel.checkpoint()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self.closed.set()

    async def _request(self, stream: anyio.abc.SocketStream) -> bytes:
        received = b""
        while b"\r\n\r\n" not in received:
            received += await stream.receive()
        head, _, body = received.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += await stream.receive()
        return head + b"\r\n\r\n" + body


@asynccontextmanager
async def serving(*scripts: Script, **headers: str) -> AsyncIterator[tuple[Server, Wire]]:
    server = Server(list(scripts))
    with anyio.fail_after(60):
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, server.serve)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            spec = HttpSpec(
                name=UpstreamName("up"), url=f"http://127.0.0.1:{port}/mcp?a=1", headers=headers
            )
            out = wire_to(spec, meta=META)
            assert out is not None
            try:
                yield server, out
            finally:
                out.close()
                tasks.cancel_scope.cancel()


def entry(**definition: object) -> ToolEntry:
    return ToolEntry(
        exposed=TOOL, original="tool", backend=UpstreamName("up"), definition=definition
    )


async def test_a_request_says_what_the_protocol_asks_for() -> None:
    schema = {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    }
    async with serving([answer(result())], authorization="Bearer theirs") as (server, out):
        calls = ToolCalls(out, [entry(inputSchema=schema)])
        got = await calls.sent({"name": "tool", "arguments": {"region": "grüße"}})

    assert got == TEXT
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert first == "POST /mcp?a=1 HTTP/1.1"
    assert headers["mcp-protocol-version"] == "2026-07-28"
    assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "tool")
    assert headers["Mcp-Param-Region"] == "=?base64?Z3LDvMOfZQ==?="
    assert headers["accept-encoding"] == "identity"
    assert headers["authorization"] == "Bearer theirs"
    sent = json.loads(body)
    assert sent["params"] == {"name": "tool", "arguments": {"region": "grüße"}, "_meta": META}


async def test_connections_are_kept_for_the_next_request() -> None:
    async with serving([answer(result(1))], [answer(result(2))]) as (server, out):
        await out.request("tools/call", {})
        await out.request("tools/call", {})

    assert server.connections == 1


async def test_a_connection_is_read_on_after_an_answer_that_had_to_wait_for_its_reader() -> None:
    large = {"content": [{"type": "text", "text": "x" * 2 * http1.UNREAD_BYTES_MAX}]}
    scripts = [[answer({**result(number), "result": large})] for number in (1, 2, 3)]
    async with serving(*scripts) as (server, out):
        calls = ToolCalls(out, [entry()])
        for _ in scripts:
            assert await calls.sent({"name": "tool", "arguments": {}}) == large

    assert server.connections == 1


@pytest.mark.parametrize(
    "first",
    [
        [answer(result(1), connection="close")],
        [answer(result(1)), b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"],
        [answer(result(1)), HANG_UP],
    ],
)
async def test_a_connection_that_is_no_good_any_more_is_not_used_again(first: Script) -> None:
    async with serving(first, [answer(result(2))]) as (server, out):
        await out.request("tools/call", {})
        await anyio.wait_all_tasks_blocked()
        await anyio.sleep(0.01)
        await out.request("tools/call", {})

    assert server.connections == 2


async def test_a_connection_that_rested_long_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http1, "KEPT_SECONDS_MAX", -1)
    async with serving([answer(result(1))], [answer(result(2))]) as (server, out):
        await out.request("tools/call", {})
        await out.request("tools/call", {})

    assert server.connections == 2


async def test_an_answer_may_come_in_pieces_and_chunks() -> None:
    whole = json.dumps(result()).encode()
    chunked = b"".join(b"%x\r\n%b\r\n" % (1, whole[at : at + 1]) for at in range(len(whole)))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json ; charset=utf-8 \r\n"
    body = head + b"transfer-encoding: chunked\r\n\r\n" + chunked + b"0\r\n\r\n"
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
    async with serving([b"HTTP/1.1 100 Continue\r\n\r\n", *pieces]) as (_, out):
        assert await out.request("tools/call", {}) == TEXT


async def test_an_answer_may_end_with_its_connection() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
    async with serving([head, json.dumps(result()).encode(), HANG_UP]) as (_, out):
        assert await out.request("tools/call", {}) == TEXT


async def test_events_before_the_answer_are_heard() -> None:
    heard: list[tuple[str, object]] = []

    async def hear(method: str, params: object) -> None:
        heard.append((method, params))

    told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}
    stream = events(told, asked, result())
    async with serving([stream[:90], stream[90:]], [answer(result(2))]) as (server, out):
        got = await out.request("tools/call", {}, hear=hear)
        await out.request("tools/call", {})

    assert got == TEXT
    assert heard == [("notifications/progress", {"progress": 1})]
    assert server.connections == 1


async def test_an_error_of_the_upstream_is_its_own() -> None:
    said = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no", "data": [1]}}
    async with serving([answer(said, status="400 Bad Request")]) as (_, out):
        with pytest.raises(MCPError) as caught:
            await out.request("tools/call", {})

    assert (caught.value.code, caught.value.message, caught.value.error.data) == (-32602, "no", [1])


BROKEN: dict[str, tuple[Script, str]] = {
    "nothing at all": ([HANG_UP], "closed"),
    "half a head": ([b"HTTP/1.1 200 OK\r\ncontent-", HANG_UP], "closed"),
    "half a body": ([answer(result())[:-5], HANG_UP], "closed"),
    "half an event": ([events(result())[:-30], HANG_UP], "closed"),
    "no HTTP": ([b"hello\r\n\r\n"], "not HTTP"),
    "an endless head": ([b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000], "without an end"),
    "compressed": ([answer(result(), content_encoding="gzip")], "compressed"),
    "a redirect": ([answer(b"", status="307 X", location="http://other/")], "redirect"),
    "accepted": ([answer(b"", status="202 Accepted", content_type="text/plain")], "202"),
    "a page": ([answer(b"<html>", content_type="text/html")], "content type"),
    "a server's fault": ([answer(b"", status="500 X", content_type="text/plain")], "500"),
    "no JSON": ([answer(b"{")], "not JSON"),
    "a list": ([answer([])], "not of JSON-RPC"),
    "another's answer": ([answer(result(2))], "no result for this request"),
    "no result": ([answer({"jsonrpc": "2.0", "id": 1})], "no result"),
    "no answer among the events": (
        [events({"jsonrpc": "2.0", "method": "notifications/x"})],
        "ended without an answer",
    ),
}


@pytest.mark.requirement("upstream.wire-is-contained")
@pytest.mark.parametrize(("script", "says"), BROKEN.values(), ids=BROKEN)
async def test_what_breaks_off_or_makes_no_sense_was_sent_and_is_charged(
    script: Script, says: str
) -> None:
    async with serving(script) as (_, out):
        with pytest.raises(UpstreamFailedError, match=says):
            await out.request("tools/call", {})


@pytest.mark.requirement("upstream.wire-is-contained")
@pytest.mark.parametrize("stream", [answer, events])
async def test_an_answer_is_bounded(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "JSON_BYTES_MAX", 50_000)
    async with serving([stream(result(text="x" * 60_000))]) as (_, out):
        with pytest.raises(UpstreamFailedError, match="larger than 50000 bytes"):
            await out.request("tools/call", {})


@pytest.mark.requirement("upstream.wire-is-contained")
async def test_nobody_there_means_that_nothing_was_sent() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{held.getsockname()[1]}/mcp"
        out = wire_to(HttpSpec(name=UpstreamName("up"), url=url), meta=META)
        assert out is not None

        with pytest.raises(UpstreamNotReachedError, match="upstream up: cannot connect"):
            await out.request("tools/call", {})


@pytest.mark.requirement("upstream.wire-is-contained")
async def test_more_connections_than_allowed_are_not_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http1, "CONNECTIONS_MAX", 0)
    async with serving() as (_, out):
        with pytest.raises(UpstreamNotReachedError, match="connections are in use"):
            await out.request("tools/call", {})


async def test_a_request_that_is_given_up_closes_its_connection() -> None:
    """In this era that is how an upstream is told that nobody waits any more."""
    async with serving([b"HTTP/1.1 200 OK\r\n"]) as (server, out):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(out.request, "tools/call", {})
            while not server.requests:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        await server.closed.wait()


ODD_RESULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no content": ({"x": 1}, "content"),
    "content that is none": ({"content": "x"}, "array"),
    "a block of no kind": ({"content": [{"text": "x"}]}, "type"),
    "a block of an unknown kind": ({"content": [{"type": "smell"}]}, "smell"),
    "a text without its text": ({"content": [{"type": "text"}]}, "text"),
    "an image without data": ({"content": [{"type": "image", "mimeType": "a/b"}]}, "data"),
    "an error that is no truth value": ({"content": [], "isError": "yes"}, "isError"),
    "meta that is none": ({"content": [], "_meta": []}, "_meta"),
    "questions that are none": (
        {"resultType": "input_required", "inputRequests": ["x"]},
        "inputRequests",
    ),
    "a question without a method": (
        {"resultType": "input_required", "inputRequests": {"a": {}}},
        "method",
    ),
}


@pytest.mark.requirement("upstream.wire-is-contained")
@pytest.mark.parametrize(("members", "says"), ODD_RESULTS.values(), ids=ODD_RESULTS)
async def test_a_result_is_held_against_the_protocol(members: dict[str, Any], says: str) -> None:
    async with serving([answer(result(**members))]) as (_, out):
        calls = ToolCalls(out, [entry()])
        with pytest.raises(UpstreamFailedError, match=says):
            await calls.sent({"name": "tool"})


@pytest.mark.parametrize(
    "members",
    [
        {"content": [], "structuredContent": {"n": 1}},
        {"content": [{"type": "text", "text": "x"}], "isError": True},
        {"resultType": "input_required", "inputRequests": {}},
    ],
)
async def test_what_fits_is_handed_on_as_it_came(members: dict[str, Any]) -> None:
    async with serving([answer(result(**members))]) as (_, out):
        calls = ToolCalls(out, [entry()])

        assert await calls.sent({"name": "tool"}) == members


async def test_a_tool_that_is_gone_was_not_called() -> None:
    async with serving() as (server, out):
        with pytest.raises(UpstreamNotReachedError, match="no longer offers"):
            await ToolCalls(out, []).sent({"name": "tool"})

    assert server.requests == []


@pytest.mark.parametrize(
    "url",
    ["ftp://h/", "http://", "http://u:p@h/", "http://h:x/", "http://h/ü", "http://h/ x", "/mcp"],
)
def test_an_address_that_needs_more_is_left_to_the_sdk(url: str) -> None:
    assert origin_of(url) is None


def test_an_address_says_host_port_and_path() -> None:
    plain, tls, six = map(origin_of, ("http://h/mcp", "https://h:444?a=b", "http://[::1]:80/x"))

    assert plain is not None
    assert (plain.host_header, plain.port, plain.path) == ("h", 80, "/mcp")
    assert tls is not None
    assert (tls.host_header, tls.is_tls, tls.path) == ("h:444", True, "/?a=b")
    assert six is not None
    assert six.host_header == "[::1]"


@pytest.mark.parametrize(
    "headers",
    [{"X": "a\r\nY: b"}, {"Content-Length": "1"}, {"Host": "other"}, {"X Y": "a"}, {"X": "ü"}],
)
def test_headers_that_would_change_the_framing_are_left_to_the_sdk(headers: dict[str, str]) -> None:
    assert not can_be_sent(headers)
