"""Requests of what another worker keeps: handed on to it, and its answer handed back.

What a worker keeps for a client (a session of the older era, an event stream, a request that
waits for the client's answer) is named in what the client sends back. The name says where it
is; whoever accepted the connection passes the request on.
"""

import logging
from pathlib import Path

import anyio
import httpx
import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.workers.places import worker_named, worker_socket
from tool_gateway.front.again import again
from tool_gateway.front.mcp_http import PLACE_MARK, SSE_MESSAGES_PATH
from tool_gateway.front.parking import STATE_PREFIX
from tool_gateway.telemetry import count_failure

logger = logging.getLogger(__name__)

# An event stream is silent for as long as it likes; a worker that is there takes it at once.
_TIMEOUT = {"connect": 5.0, "write": 30.0, "read": None, "pool": None}
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64)
_SESSION_ID = b"mcp-session-id"
_STATE = b'"requestState"'
# Those of one connection; the next has its own.
_OF_THE_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"upgrade"})


class _Params(msgspec.Struct):
    state: str | None = msgspec.field(name="requestState", default=None)


class _Body(msgspec.Struct):
    params: _Params | None = None


_decode = msgspec.json.Decoder(_Body).decode


class Ways:
    """The kept connections to the other workers."""

    def __init__(self, state_dir: Path) -> None:
        """Start with none."""
        self._state_dir = state_dir
        self._ways: dict[int, httpx.AsyncHTTPTransport] = {}

    def to(self, worker: int) -> httpx.AsyncHTTPTransport:
        """Return the way to a worker, which may not be there."""
        way = self._ways.get(worker)
        if way is None:
            path = str(worker_socket(self._state_dir, worker))
            way = self._ways[worker] = httpx.AsyncHTTPTransport(uds=path, limits=_LIMITS)
        return way

    async def aclose(self) -> None:
        """Close them all."""
        for way in self._ways.values():
            await way.aclose()


class Handing:
    """Serves what is this worker's own and hands on what is another's."""

    def __init__(self, app: ASGIApp, *, ways: Ways, worker: int, workers: int) -> None:
        """Wrap `app`, which gets whole bodies only; `worker` is who serves here."""
        self._app = app
        self._ways = ways
        self._others = frozenset(range(1, workers + 1)) - {worker}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, here or there."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        first = await receive()
        body = first.get("body", b"")
        owner = _named_in(scope) or _named_in_body(body)
        if owner in self._others:
            assert owner is not None, "nobody is none of the others"
            if await self._handed(owner, scope, body, receive, send):
                return
            # What it kept is gone with it. Here it is unknown too, which tells the client.
            count_failure("handing")
        await self._app(scope, again(first, receive), send)

    async def _handed(
        self, owner: int, scope: Scope, body: bytes, receive: Receive, send: Send
    ) -> bool:
        """Hand a request to its owner and its answer back; False where that does not answer."""
        was_answered = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_gone, receive, tasks.cancel_scope)
            try:
                response = await self._ways.to(owner).handle_async_request(_request_of(scope, body))
            except httpx.TransportError:
                was_answered = False
            else:
                await _hand_back(response, send)
            tasks.cancel_scope.cancel()
        return was_answered


def _named_in(scope: Scope) -> int | None:
    """Return the worker that a request's session or path names."""
    for name, value in scope["headers"]:
        if name == _SESSION_ID:
            return worker_named(value.decode("latin-1").rpartition(PLACE_MARK)[2])
    path: str = scope["path"]
    if path.startswith(SSE_MESSAGES_PATH):
        return worker_named(path.rpartition("/")[2])
    return None


def _named_in_body(body: bytes) -> int | None:
    """Return the worker that keeps the request which a body goes on with."""
    if _STATE not in body:
        return None
    try:
        params = _decode(body).params
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    state = None if params is None else params.state
    if state is None or not state.startswith(STATE_PREFIX):
        return None
    return worker_named(state.removeprefix(STATE_PREFIX).partition(".")[0])


def _request_of(scope: Scope, body: bytes) -> httpx.Request:
    """Return the request as its owner is to see it: as it came."""
    query = scope["query_string"].decode("latin-1")
    path = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0]
    headers = [pair for pair in scope["headers"] if pair[0] not in _OF_THE_HOP]
    return httpx.Request(
        scope["method"],
        f"http://worker{path}{f'?{query}' if query else ''}",
        headers=headers,
        content=body,
        extensions={"timeout": _TIMEOUT},
    )


async def _hand_back(response: httpx.Response, send: Send) -> None:
    headers = [pair for pair in response.headers.raw if pair[0].lower() not in _OF_THE_HOP]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    assert isinstance(response.stream, httpx.AsyncByteStream), "the transport is asynchronous"
    try:
        async for part in response.stream:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    except httpx.TransportError:
        # The client sees a broken answer, as from a server that died.
        count_failure("handing")
        return
    finally:
        with anyio.CancelScope(shield=True):
            await response.aclose()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """Take a request back when its client goes away."""
    while (await receive())["type"] != "http.disconnect":
        """Nothing else is of interest: the body was read."""
    scope.cancel()
