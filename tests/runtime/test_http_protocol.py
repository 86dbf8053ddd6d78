"""What a listener's parser takes before it gives a connection up."""

import socket

import anyio
import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from runtime.http_protocol import HEAD_BYTES_MAX, BoundedHttp

pytestmark = pytest.mark.anyio


async def told(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the header `x` of the request."""
    value = dict(scope["headers"]).get(b"x", b"none")
    await PlainTextResponse(b"<" + value + b">")(scope, receive, send)


async def answered(*parts: bytes) -> bytes:
    """Return what a server with the bounded parser says to a connection that sends `parts`."""
    server = uvicorn.Server(uvicorn.Config(told, http=BoundedHttp, log_config=None))
    with anyio.fail_after(10), socket.create_server(("127.0.0.1", 0)) as listener:
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
    assert b"headers are larger" in said


async def test_a_large_body_is_no_large_head() -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (2 * HEAD_BYTES_MAX)

    said = await answered(head, b"x" * HEAD_BYTES_MAX, b"x" * HEAD_BYTES_MAX)

    assert said.startswith(b"HTTP/1.1 200")


async def test_white_space_around_a_value_is_no_part_of_it() -> None:
    said = await answered(b"GET / HTTP/1.1\r\nhost: a\r\nx: \t a b \t \r\n\r\n")

    assert said.endswith(b"<a b>")
