"""The short way in: calls and lists of tools in the era without sessions, from bytes to bytes.

Everything else, and every request that is not in order, goes on to the SDK's front.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

import anyio
import mcp_types
import msgspec
from anyio.abc import TaskGroup
from mcp.server.runner import modern_error_data
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    X_MCP_HEADER_KEY,
    validate_mcp_param_headers,
)
from mcp_types import ErrorData
from starlette.types import Receive, Scope, Send

from tool_gateway import spans
from tool_gateway.errors import GatewayError
from tool_gateway.front.again import again
from tool_gateway.front.lists import ToolLists
from tool_gateway.front.mcp_http import CALLER_KEY, McpFront
from tool_gateway.front.mcp_server import RESOURCE_NOT_FOUND_OF_OLD
from tool_gateway.front.reply import Reply
from tool_gateway.front.request import CALL, ModernRequest, headers_of, request_of
from tool_gateway.front.short_exchange import ShortExchange
from tool_gateway.gateway import Gateway
from tool_gateway.identity import CallContext, Caller, read_context
from tool_gateway.results import Json

logger = logging.getLogger(__name__)

# Most calls are over before anybody could have gone away: only the others are attended to.
ATTEND_AFTER_SECONDS = 0.25
# Proxies give up a connection on which nothing comes; the SDK's front waits as long.
QUIET_SECONDS_MAX = 15.0
_TOOLS_KNOWN_MAX = 10_000


class ModernFront:
    """Serves tools of a gateway to clients of the era without sessions."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        whole: McpFront,
        version: str,
        code_of: Callable[[Exception], int],
    ) -> None:
        """Take who answers what is not for here; `running` must be entered before a request.

        `code_of` gives the JSON-RPC code of an error: the house has one table for that.
        """
        self._gateway = gateway
        self.whole = whole
        self._code_of = code_of
        server = {"name": "flyball", "title": "Flyball", "version": version}
        self._stamp: dict[str, object] = {mcp_types.SERVER_INFO_META_KEY: server}
        self._lists = ToolLists(gateway, stamp=self._stamp)
        self._mirroring: dict[str, tuple[object, bool]] = {}
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block runs."""
        async with self.whole.running(), anyio.create_task_group() as self._tasks:
            try:
                yield
            finally:
                self._tasks.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of the caller that the middleware named."""
        headers = headers_of(scope)
        if headers is None:
            await self.whole(scope, receive, send)
            return
        first = await receive()
        is_whole = first["type"] == "http.request" and not first.get("more_body", False)
        request = request_of(headers, first.get("body", b"")) if is_whole else None
        caller: Caller = scope[CALLER_KEY]
        reply = Reply(send)
        if request is None or (request.method == CALL and not self._is_callable(request)):
            await self.whole(scope, again(first, receive), send)
        else:
            await self._attended(caller, request, receive, reply)

    def _is_callable(self, request: ModernRequest) -> bool:
        """Tell whether the call is one of a tool that there is, with headers that agree.

        A client that could be asked something in the middle of it goes the long way.
        """
        schema = self._gateway.schema_of(request.tool)
        if schema is None or (request.can_be_asked and self._gateway.can_ask(request.tool)):
            return False
        known, is_mirroring = self._mirroring.get(request.tool, (None, False))
        if known is not schema:
            is_mirroring = X_MCP_HEADER_KEY in json.dumps(schema)
            if len(self._mirroring) >= _TOOLS_KNOWN_MAX:
                self._mirroring.clear()
            self._mirroring[request.tool] = schema, is_mirroring
        if not is_mirroring:
            return True
        return validate_mcp_param_headers(schema, request.arguments, request.headers) is None

    async def _attended(
        self, caller: Caller, request: ModernRequest, receive: Receive, reply: Reply
    ) -> None:
        """Answer a request; a client that goes away takes it back."""
        assert self._tasks is not None, "the front is running"
        with anyio.CancelScope() as scope:
            attending = asyncio.get_running_loop().call_later(
                ATTEND_AFTER_SECONDS, self._tasks.start_soon, _attend, receive, reply, scope
            )
            try:
                body, status = await self._answered(caller, request)
                await reply.end(body, status=status)
            finally:
                attending.cancel()

    async def _answered(self, caller: Caller, request: ModernRequest) -> tuple[bytes, int]:
        """Return the message that answers a request, and its HTTP status."""
        began_s = spans.now_s()
        with spans.serving(
            request.method,
            tool=request.tool,
            version=request.headers[MCP_PROTOCOL_VERSION_HEADER],
            request_id=request.id,
            meta=request.meta,
        ) as span:
            result, error, is_refused = await self._answer(caller, request)
            fault = "" if error is None else str(error.code)
            if fault:
                spans.note_fault(span, fault, is_code=True)
            elif is_refused:
                fault = spans.TOOL_ERROR
                spans.note_fault(span, fault)
            spans.note_served(request.method, began_s=began_s, fault=fault)
        if error is None:
            return _message(request, b"result", result), HTTPStatus.OK
        return _failed(request, error)

    async def _answer(
        self, caller: Caller, request: ModernRequest
    ) -> tuple[bytes, ErrorData | None, bool]:
        """Return a result or an error, and whether the result is one of a tool that failed."""
        is_refused = False
        try:
            context = read_context(request.headers, request.meta, caller=caller)
            if request.method == CALL:
                result, is_refused = await self._called(caller, context, request)
            else:
                result = await self._lists.listed(caller, context)
        except GatewayError as error:
            return b"", modern_error_data(MCPError(self._code_of(error), str(error))), False
        except Exception as error:  # noqa: BLE001 - the top of a request, which says what is told
            return b"", modern_error_data(error), False
        return result, None, is_refused

    async def _called(
        self, caller: Caller, context: CallContext, request: ModernRequest
    ) -> tuple[bytes, bool]:
        _, chain = await self._gateway.session_of(caller, context)
        exchange = ShortExchange(
            chain.session,
            capabilities=request.capabilities,
            meta=request.meta,
            bearer=caller.bearer,
        )
        result = await self._gateway.call(
            caller, context, tool=request.tool, arguments=request.arguments, exchange=exchange
        )
        if result.fault is not None:
            code = result.fault.code
            code = mcp_types.INVALID_PARAMS if code == RESOURCE_NOT_FOUND_OF_OLD else code
            raise MCPError(code, result.fault.words, result.fault.data)
        meta = {**self._stamp, **result.meta}
        whole = {"resultType": "complete", **result.to_wire(), "_meta": meta}
        return _encoded(whole), result.is_error


async def _attend(receive: Receive, reply: Reply, scope: anyio.CancelScope) -> None:
    """Cancel `scope` when the client goes away, and keep the connection awake until then.

    The channel says that the client has gone when the answer was sent, too.
    """
    try:
        while True:
            with anyio.move_on_after(QUIET_SECONDS_MAX):
                if (await receive())["type"] == "http.disconnect":
                    scope.cancel()
                    return
                continue
            await reply.stay_awake()
    except Exception:
        # One client's connection is no reason to end the watch over the others'.
        logger.exception("a request can no longer be attended to")


def _failed(request: ModernRequest, told: ErrorData) -> tuple[bytes, int]:
    """Return the message of a request that ended with an error, and its HTTP status."""
    shape = told.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _message(request, b"error", _encoded(shape)), ERROR_CODE_HTTP_STATUS.get(told.code, 200)


def _message(request: ModernRequest, member: bytes, encoded: bytes) -> bytes:
    request_id = msgspec.json.encode(request.id)
    return b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (request_id, member, encoded)


def _encoded(whole: Json) -> bytes:
    return msgspec.json.encode(whole, enc_hook=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    message = f"{type(value).__name__} is no part of a result"
    raise TypeError(message)
