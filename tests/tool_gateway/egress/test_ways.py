"""Names are resolved once for a connection, every address is checked, and that one is used."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc
import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from tool_gateway.egress.reach import LEARNED, NAMED, Reach, network_of
from tool_gateway.egress.ways import Ways
from tool_gateway.errors import (
    EgressDeniedError,
    UpstreamFailedError,
    UpstreamNotReachedError,
    UpstreamRefusedError,
)
from tool_gateway.upstreams.fetching import Fetcher
from tool_gateway.upstreams.guarded import GuardedTransport
from tool_gateway.upstreams.http import DENIED, MARK, contained_client, unsent
from tool_gateway.upstreams.http1 import ConnectionPool
from tool_gateway.upstreams.origin import origin_of

pytestmark = pytest.mark.anyio
HERE = Reach(networks=(network_of("127.0.0.1"),))


@dataclass
class Resolver:
    """Answers each lookup with the next list of addresses, then with the last again."""

    answers: list[Sequence[str]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@dataclass
class Server:
    """Answers every request with one answer, and keeps the requests."""

    port: int
    answer: bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
    requests: list[bytes] = field(default_factory=list)

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            while True:
                try:
                    self.requests.append(await stream.receive())
                    await stream.send(self.answer)
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return


@asynccontextmanager
async def server() -> AsyncIterator[Server]:
    with anyio.fail_after(60):
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            made = Server(listener.extra(anyio.abc.SocketAttribute.local_port))
            tasks.start_soon(listener.serve, made.serve)
            yield made
            tasks.cancel_scope.cancel()


def pool(url: str, ways: Ways) -> ConnectionPool:
    origin = origin_of(url)
    assert origin is not None
    return ConnectionPool("upstream up", origin, ways)


async def asked(connections: ConnectionPool) -> bytes:
    async with connections.sent(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"") as response:
        return await response.read(100)


@pytest.mark.requirement("egress.checked-addresses")
async def test_one_forbidden_address_among_others_refuses_the_name() -> None:
    ways = Ways(NAMED, resolve=Resolver([["8.8.8.8", "10.0.0.1"]]))

    with pytest.raises(EgressDeniedError) as refused:
        await ways.to("files.example.org", 443)

    told = "files.example.org leads to 10.0.0.1, a private address; if that is meant, "
    assert str(refused.value) == told + 'set allow_private = true or allow_networks = ["10.0.0.1"]'


async def test_a_metadata_service_is_not_offered_to_allow_private() -> None:
    ways = Ways(Reach(is_private=True), resolve=Resolver([["169.254.169.254"]]))

    with pytest.raises(EgressDeniedError, match="metadata service") as refused:
        await ways.to("metadata.example.org", 80)

    assert "allow_private" not in str(refused.value)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "017700000001", "127.1"])
async def test_numbers_that_the_system_takes_for_an_address_are_checked_as_one(host: str) -> None:
    with pytest.raises(EgressDeniedError, match=r"leads to 127\.0\.0\.1, a loopback address"):
        await Ways(NAMED).to(host, 80)


@pytest.mark.parametrize("host", ["8.8.8.8%25x", "127.0.0.1%x", "::1%"])
async def test_a_zone_where_none_can_be_is_a_name_that_nobody_has(host: str) -> None:
    with pytest.raises(UpstreamNotReachedError):
        await Ways(NAMED).to(host, 80)


async def test_a_name_without_an_address_is_not_reached() -> None:
    with pytest.raises(UpstreamNotReachedError, match="has no address"):
        await Ways(NAMED, resolve=Resolver([[]])).to("files.example.org", 80)


@pytest.mark.requirement("egress.checked-addresses")
async def test_the_short_way_connects_to_the_checked_address_and_looks_nothing_up_again() -> None:
    async with server() as there:
        # The second answer is where a rebound name would lead.
        resolver = Resolver([["127.0.0.1"], ["10.0.0.1"]])
        out = pool(f"http://up.example.org:{there.port}/", Ways(HERE, resolve=resolver))

        answer = await asked(out)

        assert (answer, resolver.asked) == (b"{}", ["up.example.org"])
        out.close()
        with pytest.raises(EgressDeniedError, match=r"upstream up: .* leads to 10\.0\.0\.1"):
            await asked(out)
        assert len(there.requests) == 1


async def test_the_next_address_is_tried_where_one_refuses() -> None:
    async with server() as there:
        both = Reach(networks=(network_of("127.0.0.1"), network_of("::1")))
        out = pool(
            f"http://up.example.org:{there.port}/",
            # Nobody listens at the first one.
            Ways(both, resolve=Resolver([["::1", "127.0.0.1"]])),
        )

        assert await asked(out) == b"{}"
        out.close()


@pytest.mark.requirement("egress.checked-addresses")
async def test_the_librarys_way_connects_to_the_checked_address_under_the_hosts_name() -> None:
    async with server() as there:
        resolver = Resolver([["127.0.0.1"], ["10.0.0.1"]])
        guarded = GuardedTransport(httpx2.AsyncHTTPTransport(), Ways(HERE, resolve=resolver))
        async with httpx2.AsyncClient(transport=guarded, timeout=60) as client:
            url = f"http://up.example.org:{there.port}/mcp"

            first, again = await client.get(url), await client.get(url)

    assert (first.status_code, again.status_code) == (200, 200)
    assert str(first.url) == url
    assert f"host: up.example.org:{there.port}".encode() in there.requests[0].lower()
    assert resolver.asked == ["up.example.org"]


async def test_a_refused_address_is_the_answer_to_its_own_request() -> None:
    # In the SDK's client an exception would end every call of the connection.
    async with contained_client({}, reach=NAMED) as client:
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}

        answer = await client.post("http://0x7f000001:9/mcp", json=body)

    error = answer.json()["error"]
    assert (error["code"], error["data"]) == (DENIED, MARK)
    assert "leads to 127.0.0.1, a loopback address" in error["message"]


@pytest.mark.requirement("upstream.retried-only-where-safe")
@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://0x7f000001:9/mcp", EgressDeniedError),
        ("http://no.such.name.invalid:9/mcp", UpstreamNotReachedError),
        ("http://127.0.0.1:1/mcp", UpstreamRefusedError),
    ],
)
async def test_why_nothing_was_sent_is_the_same_on_both_ways_out(
    url: str, kind: type[UpstreamNotReachedError]
) -> None:
    short = pool(url, Ways(NAMED))
    with pytest.raises(UpstreamNotReachedError) as refused:
        await asked(short)
    async with contained_client({}, reach=NAMED) as client:
        answer = await client.post(url, json={"jsonrpc": "2.0", "id": 7, "method": "tools/list"})

    told = unsent("up", MCPError(**answer.json()["error"]))
    assert type(refused.value) is type(told) is kind


def test_an_upstreams_own_error_is_never_taken_for_one_that_was_not_sent() -> None:
    assert unsent("up", MCPError(DENIED, "no", "x" * len(MARK))) is None


@pytest.mark.requirement("egress.checked-addresses")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
async def test_a_url_that_a_server_told_never_leads_back_to_this_machine(host: str) -> None:
    with pytest.raises(EgressDeniedError, match="and a server named it"):
        await Fetcher().fetched(f"http://{host}:9/.well-known/x", reach=LEARNED)


async def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    async with server() as there:
        moved = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:%d/other\r\n" % there.port
        there.answer = moved + b"content-length: 0\r\n\r\n"

        answer = await Fetcher().fetched(f"http://127.0.0.1:{there.port}/", reach=NAMED)

    assert (answer.status, answer.is_success, len(there.requests)) == (302, False, 1)


async def test_a_document_that_is_too_large_is_not_read() -> None:
    async with server() as there:
        there.answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n" + b" " * 1_000_000

        with pytest.raises(UpstreamFailedError, match="larger than"):
            await Fetcher().fetched(f"http://127.0.0.1:{there.port}/", reach=NAMED)
