"""MCP over streamable HTTP, both eras, and over the older event stream, on the official SDK."""

from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tool_gateway.front.exchanges import Context
from tool_gateway.front.lasting import LastingSessions
from tool_gateway.front.mcp_server import McpServer
from tool_gateway.front.messages import Messages
from tool_gateway.gateway import Gateway
from tool_gateway.identity import LEGACY_SESSION_HEADER, Caller
from tool_gateway.relaying import Relaying

# Where the authenticating middleware leaves the caller for the handlers.
CALLER_KEY = "flyball.caller"
SESSION_IDLE_SECONDS = 1800
SSE_PATH = "/sse"
SSE_MESSAGES_PATH = "/sse/messages"
# What stands between a session's id and the place of the process that keeps it.
PLACE_MARK = "-"
_SESSION_ID = LEGACY_SESSION_HEADER.encode()
_MARKED_KEY = "flyball.session_id"


class McpFront:
    """Serves a gateway to MCP clients; authentication is done before a request gets here."""

    def __init__(
        self,
        gateway: Gateway,
        relaying: Relaying,
        *,
        version: str,
        body_bytes_max: int,
        code_of: Callable[[Exception], int],
        place: str = "",
    ) -> None:
        """Build the server; `running` must be entered before the first request.

        `code_of` gives the JSON-RPC code of an error: the house has one table for that. `place`
        stands in the ids of sessions, where several processes serve one port: what belongs to a
        session has to find the one that keeps it.
        """
        self._server = McpServer(
            gateway, relaying, version=version, code_of=code_of, caller_of=_request_of, place=place
        )
        self._mark = f"{PLACE_MARK}{place}".encode() if place else b""
        # Host and Origin are checked by the application, for every route alike.
        self._manager = StreamableHTTPSessionManager(
            app=self._server.sdk,
            max_request_body_size=body_bytes_max,
            session_idle_timeout=SESSION_IDLE_SECONDS,
        )
        self._app: ASGIApp = LastingSessions(
            Messages(StreamableHTTPASGIApp(self._manager)), owner_of=_owner_of
        )
        self._messages: ASGIApp = Messages(self._take_in_order)
        messages = f"{SSE_MESSAGES_PATH}/{place}" if place else SSE_MESSAGES_PATH
        self._events = SseServerTransport(messages, max_request_body_size=body_bytes_max)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block runs."""
        async with self._server.running(), self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of the caller that the middleware named."""
        _name_user(scope)
        if self._mark:
            scope, send = _unmarked(scope, self._mark), _marking(send, self._mark)
        await self._app(scope, receive, send)

    async def serve_events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a client of the transport of 2024-11-05 on its stream, until it goes."""
        _name_user(scope)
        sdk = self._server.sdk
        async with self._events.connect_sse(scope, receive, send) as (reading, writing):
            await sdk.run(reading, writing, sdk.create_initialization_options())

    async def take_message(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a message of a client that listens on such a stream."""
        _name_user(scope)
        await self._messages(scope, receive, send)

    async def _take_in_order(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._events.handle_post_message(scope, receive, send)


def _name_user(scope: Scope) -> None:
    """Bind what the SDK keeps for a client to the caller that opened it."""
    caller: Caller = scope[CALLER_KEY]
    scope["user"] = AuthenticatedUser(
        AccessToken(token=caller.token_id, client_id=caller.agent, scopes=[])
    )


def _request_of(ctx: Context) -> tuple[Caller, Mapping[str, str]]:
    """Return who sent the request, and its headers."""
    assert ctx.request is not None, "HTTP attaches the request to every message"
    scope, headers = ctx.request.scope, ctx.request.headers
    marked = scope.get(_MARKED_KEY)
    if marked is not None:
        headers = {**headers, LEGACY_SESSION_HEADER: marked}
    return scope[CALLER_KEY], headers


def _unmarked(scope: Scope, mark: bytes) -> Scope:
    """Return a request whose session id is the one that the SDK gave; what was sent is noted."""
    sent = [value for name, value in scope["headers"] if name == _SESSION_ID]
    if len(sent) != 1 or not sent[0].endswith(mark):
        return scope
    headers = [pair for pair in scope["headers"] if pair[0] != _SESSION_ID]
    headers.append((_SESSION_ID, sent[0].removesuffix(mark)))
    return {**scope, "headers": headers, _MARKED_KEY: sent[0].decode("latin-1")}


def _marking(send: Send, mark: bytes) -> Send:
    """Return a channel that puts the mark behind the session id of an answer."""

    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [
                (name, value + mark if name.lower() == _SESSION_ID else value)
                for name, value in message.get("headers", ())
            ]
            message = {**message, "headers": headers}
        await send(message)

    return marked


def _owner_of(scope: Scope) -> Hashable:
    caller: Caller = scope[CALLER_KEY]
    return caller.tenant, caller.agent
