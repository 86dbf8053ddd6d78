"""Whom the listeners answer at all, and how much of a body they take."""

from collections.abc import Callable, Iterable
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.http_guard import OVERSIZE_READ, BodyLimit, HostGuard

pytestmark = pytest.mark.anyio

LIMIT = 100


class Inner:
    """An application that keeps what it was handed and answers 204."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        body, more = b"", True
        while more:
            message = await receive()
            assert message["type"] == "http.request"
            body += message["body"]
            more = message.get("more_body", False)
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Wire:
    """The server's side of one request: what it delivers, how much was taken, what was sent."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = list(messages)
        self.taken = 0
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        self.taken += 1
        return self._messages[self.taken - 1]

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    async def through(self, app: ASGIApp, kind: str = "http") -> None:
        await app({"type": kind, "path": "/mcp", "headers": []}, self.receive, self.send)


def part(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def get(app: ASGIApp, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get("/mcp", headers=headers)


@pytest.mark.requirement("input.broken-requests")
@pytest.mark.parametrize("codings", [[b"gzip"], [b"identity", b"br"], [b"gzip, identity"]])
async def test_a_body_that_is_coded_is_not_read(codings: list[bytes]) -> None:
    inner, wire = Inner(), Wire([part(b"x", more=False)])
    headers = [(b"content-encoding", coding) for coding in codings]
    scope = {"type": "http", "path": "/mcp", "headers": headers}

    await BodyLimit(inner, bytes_max=LIMIT)(scope, wire.receive, wire.send)

    assert (wire.status, wire.taken, inner.bodies) == (415, 0, [])


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8700",
        "localhost:8700",
        "LocalHost",
        "[::1]",
        "[::1]:8700",
        "flyball.example.org",
        "Flyball.Example.ORG:443",
    ],
)
async def test_a_known_host_is_let_in_with_any_port_and_case(host: str) -> None:
    inner = Inner()

    answer = await get(HostGuard(inner, allowed_hosts=["flyball.Example.org"]), Host=host)

    assert answer.status_code == 204


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:127.0.0.1",
        "localhost.",
        "0.0.0.0",
        "[::2]:8700",
        "flyball.example.org.evil.example",
    ],
)
async def test_a_foreign_host_is_answered_421_and_goes_no_further(host: str) -> None:
    inner = Inner()

    answer = await get(HostGuard(inner, allowed_hosts=["flyball.example.org"]), Host=host)

    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"
    assert "listen.allowed_hosts" in answer.json()["detail"]
    assert inner.scopes == []


@pytest.mark.parametrize("hosts", [[], [b"localhost", b"localhost"], [b"localhost", b"evil"]])
async def test_a_request_with_no_host_or_two_is_refused(hosts: list[bytes]) -> None:
    inner, wire = Inner(), Wire([part(b"", more=False)])
    scope = {"type": "http", "path": "/mcp", "headers": [(b"host", host) for host in hosts]}

    await HostGuard(inner, allowed_hosts=[])(scope, wire.receive, wire.send)

    assert wire.status == 421
    assert inner.scopes == []


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8700"]
)
async def test_a_page_of_this_machine_may_call(origin: str) -> None:
    assert (await get(HostGuard(Inner(), allowed_hosts=[]), Origin=origin)).status_code == 204


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "http://localhost@evil.example",
        "http://evil@localhost",
        "http://localhost.evil.example",
        "localhost",
    ],
)
async def test_a_foreign_page_is_answered_403_and_goes_no_further(origin: str) -> None:
    inner = Inner()

    answer = await get(HostGuard(inner, allowed_hosts=[]), Origin=origin)

    assert answer.status_code == 403
    assert "listen.allowed_hosts" in answer.json()["detail"]
    assert inner.scopes == []


async def test_one_foreign_origin_among_several_is_enough_to_refuse() -> None:
    inner, wire = Inner(), Wire([part(b"", more=False)])
    headers = [
        (b"host", b"localhost"),
        (b"origin", b"http://localhost"),
        (b"origin", b"http://evil.example"),
    ]

    scope = {"type": "http", "path": "/mcp", "headers": headers}
    await HostGuard(inner, allowed_hosts=[])(scope, wire.receive, wire.send)

    assert wire.status == 403
    assert inner.scopes == []


async def test_a_refusals_instance_is_a_path_that_harms_no_reader() -> None:
    wire = Wire([part(b"", more=False)])
    scope = {"type": "http", "path": '/é"<\udc80', "headers": []}

    await HostGuard(Inner(), allowed_hosts=[])(scope, wire.receive, wire.send)

    assert wire.status == 421
    assert b'"instance":"/%C3%A9%22%3C' in wire.sent[1]["body"]


@pytest.mark.parametrize("size", [0, 1, LIMIT - 1, LIMIT])
async def test_a_body_within_the_limit_arrives_whole(size: int) -> None:
    inner = Inner()
    wire = Wire([part(b"x" * size, more=False)])

    await wire.through(BodyLimit(inner, bytes_max=LIMIT))

    assert inner.bodies == [b"x" * size]
    assert wire.status == 204


async def test_a_body_in_many_parts_arrives_as_one() -> None:
    inner = Inner()
    wire = Wire([part(bytes([byte]), more=byte < 9) for byte in range(10)])

    await wire.through(BodyLimit(inner, bytes_max=LIMIT))

    assert inner.bodies == [bytes(range(10))]


@pytest.mark.requirement("input.oversize-body-413")
@pytest.mark.parametrize("parts", [[LIMIT + 1], [LIMIT, 1], [1] * (LIMIT + 1)])
async def test_a_body_above_the_limit_is_answered_413_and_goes_no_further(
    parts: list[int],
) -> None:
    inner = Inner()
    last = len(parts) - 1
    wire = Wire([part(b"x" * size, more=n < last) for n, size in enumerate(parts)])

    await wire.through(BodyLimit(inner, bytes_max=LIMIT))

    assert wire.status == 413
    assert (b"connection", b"close") in wire.sent[0]["headers"]
    assert b"listen.body_bytes_max = 100" in wire.sent[1]["body"]
    assert inner.bodies == []


@pytest.mark.requirement("input.oversize-body-413")
async def test_a_sender_that_is_somewhat_over_is_read_to_its_end() -> None:
    wire = Wire([part(b"x" * LIMIT, more=n < OVERSIZE_READ) for n in range(OVERSIZE_READ + 1)])

    await wire.through(BodyLimit(Inner(), bytes_max=LIMIT))

    assert wire.taken == OVERSIZE_READ + 1
    assert wire.status == 413


@pytest.mark.requirement("input.oversize-body-413")
async def test_a_sender_that_never_stops_is_answered_without_waiting_for_its_end() -> None:
    wire = Wire([part(b"x" * LIMIT, more=True)] * 1_000)

    await wire.through(BodyLimit(Inner(), bytes_max=LIMIT))

    assert wire.taken == OVERSIZE_READ + 2
    assert wire.status == 413


@pytest.mark.parametrize("before", [[], [part(b"x", more=True)], [part(b"x" * 101, more=True)]])
async def test_a_client_that_leaves_before_its_body_is_whole_is_not_answered(
    before: list[Message],
) -> None:
    inner = Inner()
    wire = Wire([*before, {"type": "http.disconnect"}])

    await wire.through(BodyLimit(inner, bytes_max=LIMIT))

    assert wire.sent == []
    assert inner.scopes == []


async def test_a_client_that_leaves_after_its_body_is_seen_by_the_application() -> None:
    seen: list[Any] = []

    async def watching(_scope: Scope, receive: Receive, _send: Send) -> None:
        seen.extend([(await receive())["type"], (await receive())["type"]])

    wire = Wire([part(b"x", more=False), {"type": "http.disconnect"}])
    await wire.through(BodyLimit(watching, bytes_max=LIMIT))

    assert seen == ["http.request", "http.disconnect"]


@pytest.mark.parametrize(
    "guard",
    [
        lambda app: HostGuard(app, allowed_hosts=[]),
        lambda app: BodyLimit(app, bytes_max=LIMIT),
    ],
)
async def test_what_is_not_a_request_passes_untouched(guard: Callable[[ASGIApp], ASGIApp]) -> None:
    kinds: list[str] = []

    async def inner(scope: Scope, _receive: Receive, _send: Send) -> None:
        kinds.append(scope["type"])

    wire = Wire([])
    await wire.through(guard(inner), kind="lifespan")

    assert kinds == ["lifespan"]
    assert wire.taken == 0
