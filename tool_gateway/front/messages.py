"""What is wrong with a posted message, told before the SDK sees it, in JSON-RPC's own words.

The SDK reads NaN and UTF-16, answers what is no message as if its parameters were at fault, and
loses the first of two requests that are under way with one id.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import mcp_types
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.jsonrpc import jsonrpc_message_adapter
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from tool_gateway.front.again import body_again
from tool_gateway.front.json_text import NotJsonError, value_in

_SESSION = b"mcp-session-id"
_JSON = (b"content-type", b"application/json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a message is not taken, by the codes of JSON-RPC."""

    code: int
    words: str


_NO_BATCH = Refusal(
    code=mcp_types.INVALID_REQUEST,
    words="Invalid Request: batches are not taken, in any revision; send one message at a time",
)
_NO_MESSAGE = Refusal(
    code=mcp_types.INVALID_REQUEST,
    words="Invalid Request: expected one JSON-RPC 2.0 request, notification or response",
)


_NO_JSON = Refusal(
    code=mcp_types.INVALID_REQUEST,
    words="Invalid Request: Content-Type must be application/json",
)


class Messages:
    """Hands on posted messages that are in order, and answers the others."""

    def __init__(self, app: ASGIApp) -> None:
        """Take who answers what is in order."""
        self._app = app
        self._in_flight: set[tuple[bytes, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await whole_body(receive)
        if body is None:
            return
        headers = dict(scope["headers"])
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0]
        if kind.strip().lower() != "application/json":
            await _refuse(send, _NO_JSON, status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
            return
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER.encode(), b"").decode("latin-1")
        has_sessions = version not in MODERN_PROTOCOL_VERSIONS
        try:
            message = value_in(body)
        except NotJsonError as error:
            words = f"Parse error: {error}"
            await _refuse(send, Refusal(code=mcp_types.PARSE_ERROR, words=words))
            return
        refusal = _refusal_of(message, has_sessions=has_sessions)
        if refusal is not None:
            await _refuse(send, refusal)
            return
        session = headers.get(_SESSION)
        if not has_sessions or session is None or not isinstance(message, Mapping):
            await self._app(scope, body_again(body, receive), send)
            return
        await self._once(scope, body_again(body, receive), send, message=message, session=session)

    async def _once(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        message: Mapping[str, object],
        session: bytes,
    ) -> None:
        """Answer a request of a session unless another one is under way with its id."""
        if "method" not in message or "id" not in message:
            await self._app(scope, receive, send)
            return
        # As the SDK keeps them: the number 1 and the text "1" are one to it.
        key = (session, str(message["id"]))
        if key in self._in_flight:
            words = "Invalid Request: a request with this id is under way in this session"
            await _refuse(send, Refusal(code=mcp_types.INVALID_REQUEST, words=words))
            return
        self._in_flight.add(key)
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight.discard(key)


async def whole_body(receive: Receive) -> bytes | None:
    """Return a request's body, which the listener has bounded; None if the client has gone."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _refusal_of(message: object, *, has_sessions: bool) -> Refusal | None:
    if isinstance(message, list):
        return _NO_BATCH
    if not isinstance(message, dict):
        return _NO_MESSAGE
    if not has_sessions:
        return None  # the SDK tells these faults apart as that revision says
    try:
        jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError:
        return _NO_MESSAGE
    return None


async def _refuse(
    send: Send, refusal: Refusal, *, status: HTTPStatus = HTTPStatus.BAD_REQUEST
) -> None:
    error = {"code": refusal.code, "message": refusal.words}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [_JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
