"""Requests that were sent with credentials, refused, and cannot be sent again."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import httpx2
import pytest

from governor.ids import UpstreamName
from tests.tool_gateway.fast.test_wire import HANG_UP, META, Server, answer
from tool_gateway.bearer import Bearer
from tool_gateway.egress.reach import NAMED
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.upstreams.http import MARK, UNFIT, contained_client
from tool_gateway.upstreams.oauth.challenge import Challenge
from tool_gateway.upstreams.presenting import PresentingTransport
from tool_gateway.upstreams.spec import HttpSpec
from tool_gateway.upstreams.wire import wire_to

pytestmark = pytest.mark.anyio

REFUSED = answer(b"", status="401 Unauthorized", www_authenticate="Bearer", connection="close")


@dataclass
class Renewing:
    """Credentials that are renewed once: `renew` says what comes of it."""

    renew: Callable[[], Awaitable[str | None]]

    async def token(self, _: Bearer | None) -> str | None:
        return "first"

    async def renewed(self, _: Bearer | None, __: str | None, ___: Challenge) -> str | None:
        return await self.renew()


async def _no_token() -> str | None:
    raise UpstreamNotReachedError("there is no token for it")


async def _nobody_left(there: "There") -> str | None:
    there.until.cancel()
    await anyio.lowlevel.checkpoint()
    await there.listener.aclose()
    return "second"


@dataclass
class There:
    """A server that listens until it is told to go."""

    listener: anyio.abc.Listener[Any]
    until: anyio.CancelScope
    url: str


@asynccontextmanager
async def refusing(server: Server) -> AsyncIterator[There]:
    with anyio.fail_after(60):
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        until = anyio.CancelScope()

        async def serve() -> None:
            with until:
                await listener.serve(server.serve)

        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            yield There(listener, until, f"http://127.0.0.1:{port}/mcp")
            until.cancel()


@pytest.mark.requirement("upstream.refused-is-released")
@pytest.mark.parametrize("has_token", [False, True])
async def test_a_request_that_was_sent_and_refused_is_never_taken_for_unsent(
    *, has_token: bool
) -> None:
    server = Server([[REFUSED, HANG_UP]])

    async with refusing(server) as there:
        renew = partial(_nobody_left, there) if has_token else _no_token
        spec = HttpSpec(name=UpstreamName("up"), url=there.url)
        out = wire_to(spec, meta=META, credentials=Renewing(renew))
        assert out is not None
        with pytest.raises(UpstreamFailedError, match=r"refuses its credentials \(HTTP 401\), and"):
            await out.request("tools/call", {"name": "tool"})

    assert len(server.requests) == 1


@pytest.mark.requirement("upstream.refused-is-released")
@pytest.mark.parametrize("has_token", [False, True])
async def test_nor_is_one_that_the_library_sent(*, has_token: bool) -> None:
    server = Server([[REFUSED, HANG_UP]])

    async with refusing(server) as there:
        renew = partial(_nobody_left, there) if has_token else _no_token
        async with _presenting(there.url, renew) as client:
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            error = (await client.post(there.url, json=message)).json()["error"]

    assert (error["code"], error["data"]) == (UNFIT, MARK)
    assert "HTTP 401" in error["message"]


async def test_where_there_is_no_other_token_the_connection_of_the_refusal_is_given_back() -> None:
    body = b"x" * 10
    server = Server([[answer(body, status="401 No", www_authenticate="Bearer")] for _ in range(3)])

    async with (
        refusing(server) as there,
        _presenting(there.url, _no_token, connections=1) as client,
    ):
        for _ in range(3):
            await client.post(there.url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})

    assert len(server.requests) == 3


def _presenting(
    url: str, renew: Callable[[], Awaitable[str | None]], *, connections: int = 100
) -> httpx2.AsyncClient:
    def wrap(inner: httpx2.AsyncBaseTransport) -> httpx2.AsyncBaseTransport:
        few = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=connections))
        return PresentingTransport(
            few if connections == 1 else inner, Renewing(renew), url=url, bearer_of=lambda: None
        )

    return contained_client({}, reach=NAMED, wrap=wrap)
