"""What a listener's parser takes before it gives a connection up."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import uvicorn
from anyio.abc import SocketStream
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from runtime import connections
from runtime.connections import Wait, Waiting
from runtime.http_protocol import (
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    PIPELINED_MAX,
    ROOM,
    BoundedHttp,
)

pytestmark = pytest.mark.anyio


async def told(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the header `x` of the request."""
    value = dict(scope["headers"]).get(b"x", b"none")
    await PlainTextResponse(b"<" + value + b">")(scope, receive, send)


async def waiting_for_the_body(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer once the whole body has come."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return
        if not message.get("more_body", False):
            break
    await told(scope, receive, send)


async def answered(*parts: bytes) -> bytes:
    """Return what a server with the bounded parser says to a connection that sends `parts`."""
    server = uvicorn.Server(uvicorn.Config(told, http=BoundedHttp, log_config=None))
    with anyio.fail_after(60), socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            stream = await anyio.connect_tcp(*listener.getsockname())
            async with stream:
                for part in parts:
                    await stream.send(part)
                said = await stream.receive()
            server.should_exit = True
    return said


@pytest.mark.requirement("input.endless-headers")
@pytest.mark.parametrize("line", [b"x: y\r\n", b"y"])
async def test_headers_without_an_end_are_given_up(line: bytes) -> None:
    endless = line * (HEAD_BYTES_MAX // len(line) + 1)

    said = await answered(b"GET / HTTP/1.1\r\nhost: a\r\nx: ", endless)

    assert said.startswith(b"HTTP/1.1 400")
    assert b"headers" in said


async def test_a_large_body_is_no_large_head() -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (2 * HEAD_BYTES_MAX)

    said = await answered(head, b"x" * HEAD_BYTES_MAX, b"x" * HEAD_BYTES_MAX)

    assert said.startswith(b"HTTP/1.1 200")


async def test_white_space_around_a_value_is_no_part_of_it() -> None:
    said = await answered(b"GET / HTTP/1.1\r\nhost: a\r\nx: \t a b \t \r\n\r\n")

    assert said.endswith(b"<a b>")


@pytest.mark.requirement("input.endless-headers")
async def test_headers_that_come_all_at_once_are_bounded_too() -> None:
    large = b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * HEAD_BYTES_MAX + b"\r\n\r\n"
    many = b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * HEADERS_MAX + b"\r\n"
    long = b"GET /" + b"a" * HEAD_BYTES_MAX + b" HTTP/1.1\r\nhost: a\r\n\r\n"

    assert b"headers are larger" in await answered(large)
    assert b"more than 256 headers" in await answered(many)
    assert b"headers are larger" in await answered(long)


class Crowd:
    """Connections to one server with the bounded protocol, whose waits are short."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.opened: list[SocketStream] = []

    async def open(self, sent: bytes = b"") -> SocketStream:
        stream = await anyio.connect_tcp(*self.address)
        self.opened.append(stream)
        if sent:
            await stream.send(sent)
        return stream


CROWD: dict[str, Any] = {"http": BoundedHttp, "log_config": None, "lifespan": "off"}


@asynccontextmanager
async def a_crowd(app: Any = told, **more: Any) -> AsyncIterator[Crowd]:
    server = uvicorn.Server(uvicorn.Config(app, **{**CROWD, **more}))
    with anyio.fail_after(60), socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            crowd = Crowd(listener.getsockname())
            try:
                yield crowd
            finally:
                for stream in crowd.opened:
                    await anyio.aclose_forcefully(stream)
                server.should_exit = server.force_exit = True


async def all_of(stream: SocketStream) -> bytes:
    """Return what a connection is told until it is closed."""
    said = b""
    async with stream:
        try:
            while True:
                said += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return said


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.02)
    monkeypatch.setattr(connections, "SECONDS_MAX", dict.fromkeys(Wait, 0.3))


HEAD = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n"


@pytest.mark.requirement("input.slow-clients")
@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"", b""),
        (b"\r\n\r\n", b""),
        (HEAD[:-3], b"408"),
        (HEAD + b"12345", b"408"),
        (b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" + HEAD[:-3], b"408"),
    ],
)
async def test_who_says_nothing_more_is_given_up(sent: bytes, says: bytes) -> None:
    async with a_crowd(waiting_for_the_body) as crowd:
        said = await all_of(await crowd.open(sent))

    assert says in said
    assert (said == b"") is (says == b"")


@pytest.mark.requirement("input.slow-clients")
@pytest.mark.usefixtures("short_waits")
async def test_who_trickles_is_given_up_as_well() -> None:
    async with a_crowd() as crowd:
        stream = await crowd.open(HEAD[:-3])
        sent = 0
        try:
            while sent < 200:
                await stream.send(b"x")
                sent += 1
                await anyio.sleep(0.01)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    assert sent < 200


@pytest.mark.requirement("input.slow-clients")
@pytest.mark.usefixtures("short_waits")
async def test_who_does_not_read_is_given_up() -> None:
    ended = anyio.Event()

    async def endless(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(10_000):
                await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        finally:
            ended.set()

    async with a_crowd(endless) as crowd:
        await crowd.open(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await ended.wait()


@pytest.mark.requirement("input.slow-clients")
@pytest.mark.usefixtures("short_waits")
async def test_a_call_that_takes_long_is_nobody_who_waits() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await anyio.sleep(1)
        await told(scope, receive, send)

    async with a_crowd(slow) as crowd:
        stream = await crowd.open(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        said = await all_of(stream)

    assert said.startswith(b"HTTP/1.1 200")


@pytest.mark.requirement("input.slow-clients")
async def test_where_there_is_no_room_who_rested_longest_gives_way() -> None:
    async with a_crowd(limit_concurrency=ROOM + 3) as crowd:
        first = await crowd.open()
        kept = [await crowd.open() for _ in range(2)]
        fourth = await crowd.open(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        answer = await fourth.receive()
        assert await all_of(first) == b""
        await kept[1].send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        other = await kept[1].receive()

    assert answer.startswith(b"HTTP/1.1 200")
    assert other.startswith(b"HTTP/1.1 200")


GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


class Held:
    """An application that begins each answer at once, and ends it when it is let."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.let = anyio.Event()
        self.served = 0

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        self.served += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        self.begun.set()
        await self.let.wait()
        await send({"type": "http.response.body", "body": b"ended"})


WHOLE_ANSWER = b"5\r\nbegun\r\n5\r\nended\r\n0\r\n\r\n"


@pytest.mark.requirement("input.pipelined-requests")
async def test_who_asks_much_before_the_answers_gets_a_few_and_is_closed() -> None:
    held = Held()

    async with a_crowd(held) as crowd:
        stream = await crowd.open(GET * 5_000)
        await held.begun.wait()
        held.let.set()
        said = await all_of(stream)

    assert said.count(b"HTTP/1.1 200") == held.served == 1 + PIPELINED_MAX
    assert said.endswith(WHOLE_ANSWER)
    assert b"connection: close" in said


@pytest.mark.requirement("input.pipelined-requests")
async def test_nothing_is_read_while_requests_wait_for_their_turn() -> None:
    paused: list[bool] = []
    made: list[BoundedHttp] = []

    class Watched(BoundedHttp):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            made.append(self)

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        await anyio.lowlevel.checkpoint()  # the others were read meanwhile
        await receive()  # the server would read on for whoever asks for a body
        paused.append(made[0].flow.read_paused)
        await told(scope, receive, send)

    async with a_crowd(noting, http=Watched) as crowd:
        stream = await crowd.open(GET * 3)
        said = b""
        while said.count(b"<none>") < 3:
            said += await stream.receive()

    assert paused == [True, True, False]


@pytest.mark.requirement("input.slow-clients")
@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("begun", [GET[:-3], HEAD + b"12345"])
async def test_nothing_is_said_in_the_middle_of_an_answer(begun: bytes) -> None:
    held = Held()

    async with a_crowd(held) as crowd:
        stream = await crowd.open(GET)
        await held.begun.wait()
        await stream.send(begun)
        await anyio.sleep(0.6)  # twice what a client may take
        held.let.set()
        said = await all_of(stream)

    assert WHOLE_ANSWER in said


async def test_what_is_wrong_behind_an_answer_is_not_said_within_it() -> None:
    held = Held()

    async with a_crowd(held) as crowd:
        stream = await crowd.open(GET)
        await held.begun.wait()
        await stream.send(b"no request\r\n\r\n")
        await stream.send(b"x")
        held.let.set()
        said = await all_of(stream)

    assert said.endswith(WHOLE_ANSWER)


async def test_the_end_of_a_large_body_is_no_part_of_the_next_head() -> None:
    body = b"x" * (HEAD_BYTES_MAX + 10_000)
    large = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    async with a_crowd(waiting_for_the_body) as crowd:
        stream = await crowd.open(large + GET[:-2])
        said = b""
        while b"<none>" not in said:
            said += await stream.receive()
        await stream.send(GET[-2:])
        again = await stream.receive()

    assert said.startswith(b"HTTP/1.1 200")
    assert again.startswith(b"HTTP/1.1 200")


@pytest.mark.requirement("input.slow-clients")
@pytest.mark.usefixtures("short_waits")
async def test_the_end_of_a_connection_is_told_to_the_request_that_is_served() -> None:
    told_of_the_end = anyio.Event()

    async def endless(_: Scope, receive: Receive, send: Send) -> None:
        async def saying() -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while not told_of_the_end.is_set():
                await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(saying)
            while (await receive())["type"] != "http.disconnect":
                pass
            told_of_the_end.set()
            tasks.cancel_scope.cancel()

    async with a_crowd(endless) as crowd:
        await crowd.open(GET * 2)
        await told_of_the_end.wait()


async def test_many_parts_in_one_turn_wait_for_the_reader_too() -> None:
    part, paused = b"x" * 65_536, anyio.Event()

    class Watched(BoundedHttp):
        def pause_writing(self) -> None:
            paused.set()
            super().pause_writing()

    written = 0

    async def eager(_: Scope, __: Receive, send: Send) -> None:
        nonlocal written
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while written < 1_000 and not paused.is_set():
            await send({"type": "http.response.body", "body": part, "more_body": True})
            written += 1
        await send({"type": "http.response.body", "body": b""})

    async with a_crowd(eager, http=Watched) as crowd:
        stream = await crowd.open(GET)
        await paused.wait()
        said = b""
        while not said.endswith(b"0\r\n\r\n"):
            said += await stream.receive()

    assert written < 1_000
    assert said.count(b"x") == written * len(part)


@pytest.mark.requirement("input.slow-clients")
@pytest.mark.usefixtures("short_waits")
async def test_one_connection_that_cannot_be_closed_keeps_no_other_open() -> None:
    closed = anyio.Event()
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: faults.append(told))

    class Stuck:
        def give_up(self, wait: Wait) -> None:
            raise RuntimeError(wait)

        def give_way(self) -> None:
            """Stay."""

    class Closing(Stuck):
        def give_up(self, wait: Wait) -> None:
            closed.set()

    waiting = Waiting()
    with anyio.fail_after(60):
        waiting.begin(Wait.HEAD, Stuck())
        waiting.begin(Wait.HEAD, Closing())
        await closed.wait()

    assert len(faults) == 1


@pytest.mark.requirement("input.slow-clients")
@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(("enough", "is_served"), [(2_000, True), (100_000, False)])
async def test_a_body_that_makes_progress_has_its_time_again(
    enough: int, *, is_served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PROGRESS_BYTES", enough)
    # Longer than the pause of a busy machine between two parts of the body.
    monkeypatch.setattr(connections, "SECONDS_MAX", dict.fromkeys(Wait, 1.2))
    part, parts = b"x" * 2_000, 8
    length = len(part) * parts

    async with a_crowd(waiting_for_the_body) as crowd:
        stream = await crowd.open(HEAD.replace(b" 9\r", b" %d\r" % length))
        said = b""
        with suppress(anyio.BrokenResourceError):
            for _ in range(parts):
                await anyio.sleep(0.2)  # all together take longer than one wait may
                await stream.send(part)
            said = await stream.receive()

    assert said.startswith(b"HTTP/1.1 200") is is_served
