"""A provider on loopback whose every answer is what a function of the test returns."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import httpx
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

Handler = Callable[[httpx.Request], Awaitable[httpx.Response]]
_HEAD_BYTES_MAX = 65_536


@dataclass
class ProviderServer:
    """Where it is, and how it is taken away."""

    port: int
    listener: anyio.abc.Listener[SocketStream]

    async def leave(self) -> None:
        """Close the door: whoever comes is refused."""
        await self.listener.aclose()


@asynccontextmanager
async def provider_server(handle: Handler) -> AsyncIterator[ProviderServer]:
    """Serve until the block ends; a handler that raises breaks its connection off."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            received = BufferedByteReceiveStream(stream)
            while (request := await _request(received)) is not None:
                response = await _answer(stream, handle, request)
                if response is None:
                    return
                await stream.send(response)

    multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with multi, anyio.create_task_group() as tasks:
        tasks.start_soon(_served, multi, serve)
        port = multi.extra(SocketAttribute.local_port)
        try:
            yield ProviderServer(port=port, listener=multi)
        finally:
            tasks.cancel_scope.cancel()


async def _served(
    listener: anyio.abc.Listener[SocketStream],
    serve: Callable[[SocketStream], Awaitable[None]],
) -> None:
    async def contained(stream: SocketStream) -> None:
        try:
            await serve(stream)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            """The client left, as some tests mean it to."""

    try:
        await listener.serve(contained)
    except* anyio.ClosedResourceError:
        """The test took the server away."""


async def _answer(stream: SocketStream, handle: Handler, request: httpx.Request) -> bytes | None:
    """Return the answer's bytes; None where the handler raised, or the client left before."""
    answered: list[httpx.Response] = []
    async with anyio.create_task_group() as tasks:

        async def until_gone() -> None:
            try:
                await stream.receive(1)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                tasks.cancel_scope.cancel()

        tasks.start_soon(until_gone)
        try:
            answered.append(await handle(request))
        except httpx.HTTPError:
            """What this stands for, the closing of the connection tells."""
        tasks.cancel_scope.cancel()
    return _written(answered[0]) if answered else None


def _written(response: httpx.Response) -> bytes:
    content = response.content
    headers = {**response.headers, "content-length": str(len(content))}
    lines = [
        f"{name}: {value}\r\n".encode("latin-1") if value.isascii() else b""
        for name, value in headers.items()
    ]
    raw = dict(response.headers.raw)
    foreign = [b"%b: %b\r\n" % (name, value) for name, value in raw.items() if not value.isascii()]
    head = f"HTTP/1.1 {response.status_code} Played\r\n".encode()
    if response.status_code in {204, 304}:
        return head + b"\r\n"
    return head + b"".join((*lines, *foreign)) + b"\r\n" + content


async def _request(stream: BufferedByteReceiveStream) -> httpx.Request | None:
    try:
        head = await stream.receive_until(b"\r\n\r\n", _HEAD_BYTES_MAX)
    except (anyio.IncompleteRead, anyio.EndOfStream):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = [tuple(line.split(": ", 1)) for line in lines]
    length = int(dict(headers).get("content-length", "0"))
    content = await stream.receive_exactly(length) if length else b""
    host = dict(headers)["host"]
    return httpx.Request(method, f"http://{host}{path}", headers=headers, content=content)
