"""The MCP server that every front serves: all methods of both eras, over the middle."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import mcp_types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.methods import CACHEABLE_METHODS, INPUT_REQUIRED_METHODS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from governor.ids import SessionId
from governor.policy import TASK_METHODS
from tool_gateway import spans
from tool_gateway.errors import (
    GatewayError,
    OfferDeniedError,
    UnknownOfferError,
    UpstreamSaidError,
)
from tool_gateway.front.exchanges import (
    LEVEL_STATE,
    ClientExchange,
    Context,
    connection_of,
    exchange_for,
    is_modern,
    wishes_of,
)
from tool_gateway.front.listening import Listening
from tool_gateway.front.parking import Parked, Parking, Subject
from tool_gateway.front.sessions import WATCHED_PER_SESSION_MAX, ClientSessions
from tool_gateway.gateway import Gateway
from tool_gateway.identity import CallContext, Caller, read_context
from tool_gateway.outcomes import OUTCOME_META
from tool_gateway.redaction import payload_hash
from tool_gateway.relaying import LISTINGS, TASKS_EXTENSION, Relaying
from tool_gateway.results import DENIAL_META, Json
from tool_gateway.translate import tool_for_client

Members = dict[str, Any]
CallerOf = Callable[[Context], tuple[Caller, Mapping[str, str]]]

INSTRUCTIONS = (
    "Tools run under budgets. A denial names the budget and the remedy; results that are too "
    "large end with an index for memory_read."
)
# Members of a result that one era has and the other has not.
_ENVELOPE = frozenset({"resultType", "ttlMs", "cacheScope", "_meta"})
RESOURCE_NOT_FOUND_OF_OLD = -32_002


@dataclass(slots=True)
class Reply:
    """The whole result of a request, whose unknown members the SDK would drop."""

    whole: Json | None = None


class McpServer:
    """All of MCP over one gateway; the fronts bring the transports."""

    def __init__(
        self,
        gateway: Gateway,
        relaying: Relaying,
        *,
        version: str,
        code_of: Callable[[Exception], int],
        caller_of: CallerOf,
        place: str = "",
    ) -> None:
        """Build the server; `running` must be entered before the first request.

        `code_of` gives the JSON-RPC code of an error: the house has one table for that.
        `caller_of` names who sent a request, and its headers. `place` is this process's name in
        what clients send back.
        """
        self._gateway = gateway
        self._relaying = relaying
        self._code_of = code_of
        self._caller_of = caller_of
        self._parking = Parking(place=place)
        self._sessions = ClientSessions(relaying)
        self._listening = Listening(relaying)
        self.sdk: Server[Any] = Server(
            "flyball",
            version=version,
            title="Flyball",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=gateway.schema_of,
        )
        self._register()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block runs."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._parking.open())
            await stack.enter_async_context(self._sessions.told(self._relaying.changes))
            stack.callback(self._listening.close)
            yield

    def _register(self) -> None:
        add, paged = self.sdk.add_request_handler, mcp_types.PaginatedRequestParams
        add("server/discover", mcp_types.RequestParams, self._discover)
        add("tools/list", paged, self._list_tools)
        add("tools/call", mcp_types.CallToolRequestParams, self._call_tool)
        for method in LISTINGS:
            add(method, paged, self._list)
        add("resources/read", mcp_types.ReadResourceRequestParams, self._read)
        add("resources/subscribe", mcp_types.SubscribeRequestParams, self._subscribe)
        add("resources/unsubscribe", mcp_types.UnsubscribeRequestParams, self._unsubscribe)
        add(
            "subscriptions/listen",
            mcp_types.SubscriptionsListenRequestParams,
            self._listen,
        )
        add("prompts/get", mcp_types.GetPromptRequestParams, self._get_prompt)
        add("completion/complete", mcp_types.CompleteRequestParams, self._complete)
        add("logging/setLevel", mcp_types.SetLevelRequestParams, self._set_level)
        # Not `tasks/list`: which tasks an upstream runs says nothing of whose they are.
        for method in TASK_METHODS:
            add(method, mcp_types.RequestParams, self._task)
        self.sdk.middleware.append(self._whole)

    async def _whole(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Return a result with the members that the SDK's models do not know.

        The SDK checks each request and result against its revision, and adds what that
        revision's results must carry; it also drops what it does not know, and a relay must not.
        """
        if ctx.request_id is None:
            return await call_next(ctx)
        reply, began_s, fault = Reply(), spans.now_s(), ""
        try:
            shaped = await call_next(replace(ctx, lifespan_context=reply))
        except GatewayError as error:
            told = self._told(error, ctx)
            fault = str(told.code)
            raise told from error
        except BaseException as error:
            fault = str(error.code) if isinstance(error, MCPError) else type(error).__name__
            raise
        finally:
            spans.note_served(ctx.method, began_s=began_s, fault=fault)
        assert isinstance(shaped, dict), "the SDK dumps every result"
        if ctx.method == "initialize":
            self._sessions.remember(connection_of(ctx))
            return {**shaped, **self._described(shaped, is_modern=False)}
        if reply.whole is None:
            return shaped
        members = {k: v for k, v in reply.whole.items() if k not in _ENVELOPE}
        meta = {**(shaped.get("_meta") or {}), **_mapping(reply.whole.get("_meta"))}
        return {**shaped, **members, **({"_meta": meta} if meta else {})}

    def _told(self, error: GatewayError, ctx: Context) -> MCPError:
        """Return an error as its client sees it: an upstream's own, else the house's."""
        if isinstance(error, UpstreamSaidError):
            code = error.code
            if is_modern(ctx) and code == RESOURCE_NOT_FOUND_OF_OLD:
                code = mcp_types.INVALID_PARAMS
            return MCPError(code, error.words, error.data)
        data: Json | None = None
        if isinstance(error, OfferDeniedError):
            data = {DENIAL_META: error.denial}
        if isinstance(error, UnknownOfferError) and "uri" in (ctx.params or {}):
            data = {"uri": (ctx.params or {})["uri"]}
        return MCPError(self._code_of(error), str(error), data)

    def _described(self, shaped: Json, *, is_modern: bool) -> dict[str, object]:
        """Return what the server says about itself, in the words of an era."""
        face = self._relaying.face
        capabilities = {**face.capabilities}
        if self._relaying.sole is None or self._gateway.shows_builtins:
            capabilities["tools"] = {"listChanged": True}
        if is_modern:
            capabilities.pop("logging", None) if face.has_sessions else None
        else:
            capabilities.pop("extensions", None)
            capabilities.setdefault("logging", {})
        described: dict[str, object] = {"capabilities": capabilities}
        instructions = face.instructions if self._relaying.sole is not None else INSTRUCTIONS
        if instructions is not None:
            described["instructions"] = instructions
        if face.implementation is not None:
            described["serverInfo"] = dict(face.implementation)
        return described

    async def _discover(self, ctx: Context, params: mcp_types.RequestParams) -> Members:
        described = self._described({}, is_modern=True)
        info = described.pop("serverInfo", None)
        meta = {} if info is None else {mcp_types.SERVER_INFO_META_KEY: info}
        return self._noted(
            ctx,
            {"supportedVersions": list(MODERN_PROTOCOL_VERSIONS), **described, "_meta": meta},
        )

    async def _list_tools(self, ctx: Context, params: mcp_types.PaginatedRequestParams) -> Members:
        caller, _ = self._caller_of(ctx)
        context = self._context_of(ctx)
        shown = await self._gateway.listed_for(caller, context)
        tools = [
            tool_for_client(listed.entry, with_output_schema=listed.with_output_schema)
            for listed in shown
        ]
        outcome = self._gateway.outcome_of(caller, shown)
        meta = {} if outcome is None else {"_meta": {OUTCOME_META: outcome}}
        return self._noted(ctx, {"tools": tools, **meta})

    async def _list(self, ctx: Context, params: mcp_types.PaginatedRequestParams) -> Members:
        caller, exchange = await self._plain(ctx)
        listed = await self._relaying.listed(LISTINGS[ctx.method], caller, _bare(ctx), exchange)
        return self._noted(ctx, listed)

    async def _read(self, ctx: Context, params: mcp_types.ReadResourceRequestParams) -> Members:
        read = partial(self._relaying.read, context=self._context_of(ctx))
        return await self._askable(ctx, read)

    async def _get_prompt(self, ctx: Context, params: mcp_types.GetPromptRequestParams) -> Members:
        get = partial(self._relaying.get_prompt, context=self._context_of(ctx))
        return await self._askable(ctx, get)

    async def _complete(self, ctx: Context, params: mcp_types.CompleteRequestParams) -> Members:
        caller, exchange = await self._plain(ctx)
        context = self._context_of(ctx)
        completed = await self._relaying.complete(caller, _bare(ctx), exchange, context=context)
        return self._noted(ctx, completed)

    async def _subscribe(self, ctx: Context, params: mcp_types.SubscribeRequestParams) -> Members:
        caller, exchange = await self._plain(ctx)
        session = self._sessions.of(connection_of(ctx))
        if params.uri not in session.watched:
            if len(session.watched) >= WATCHED_PER_SESSION_MAX:
                raise MCPError(mcp_types.INVALID_REQUEST, "this session watches too many resources")
            await self._relaying.watch(params.uri, caller, exchange)
            session.watched.add(params.uri)
        return {}

    async def _unsubscribe(
        self, ctx: Context, params: mcp_types.UnsubscribeRequestParams
    ) -> Members:
        session = self._sessions.of(connection_of(ctx))
        if params.uri in session.watched:
            session.watched.discard(params.uri)
            await self._relaying.unwatch(params.uri)
        return {}

    async def _listen(
        self, ctx: Context, params: mcp_types.SubscriptionsListenRequestParams
    ) -> mcp_types.SubscriptionsListenResult:
        caller, _ = self._caller_of(ctx)
        return await self._listening.serve(ctx, caller, params)

    async def _set_level(self, ctx: Context, params: mcp_types.SetLevelRequestParams) -> Members:
        _, exchange = await self._plain(ctx)
        connection_of(ctx).state[LEVEL_STATE] = params.level
        await self._relaying.set_level({"level": params.level}, exchange)
        return {}

    async def _task(self, ctx: Context, params: mcp_types.RequestParams) -> Members:
        if TASKS_EXTENSION not in _mapping(self._relaying.face.capabilities.get("extensions")):
            raise MCPError(mcp_types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        caller, exchange = await self._plain(ctx)
        told = await self._relaying.ask_about_task(
            ctx.method, caller, _bare(ctx), exchange, context=self._context_of(ctx)
        )
        return self._noted(ctx, told)

    async def _call_tool(self, ctx: Context, params: mcp_types.CallToolRequestParams) -> Members:
        async def call(caller: Caller, sent: Json, exchange: ClientExchange) -> Json:
            result = await self._gateway.call(
                caller,
                self._context_of(ctx),
                tool=params.name,
                arguments=_mapping(sent.get("arguments")),
                exchange=exchange,
            )
            if result.fault is not None:
                fault = result.fault
                raise UpstreamSaidError(
                    fault.words, code=fault.code, words=fault.words, data=fault.data
                )
            return result.to_wire()

        return await self._askable(ctx, call)

    async def _askable(
        self, ctx: Context, serve: Callable[[Caller, Json, ClientExchange], Awaitable[Json]]
    ) -> Members:
        """Return the result of a request whose client may be asked something meanwhile."""
        caller, _ = self._caller_of(ctx)
        wishes, sent = wishes_of(ctx, bearer=caller.bearer), _bare(ctx)
        session = await self._session_of(ctx, caller)
        if not (wishes.retries_itself and wishes.can_be_asked):
            exchange = exchange_for(ctx, session=session, wishes=wishes)
            return self._noted(ctx, await serve(caller, sent, exchange))
        assert ctx.method in INPUT_REQUIRED_METHODS, "only these are answered with questions"
        state, answers = sent.get("requestState"), _mapping(sent.get("inputResponses"))
        subject = Subject(
            owner=str(caller.agent),
            digest=payload_hash(
                ctx.method,
                {k: v for k, v in sent.items() if k not in {"requestState", "inputResponses"}},
            ),
        )
        if self._parking.owns(state):
            return self._noted(
                ctx,
                await self._parking.resume(ctx, subject, state=str(state), answers=answers),
            )

        def exchange_of(parked: Parked) -> ClientExchange:
            return exchange_for(ctx, session=session, wishes=wishes, asking=parked)

        async def work(exchange: ClientExchange) -> Json:
            return await serve(caller, sent, exchange)

        return self._noted(ctx, await self._parking.serve(subject, exchange_of, work))

    async def _plain(self, ctx: Context) -> tuple[Caller, ClientExchange]:
        """Return who sent a request, and an exchange without questions."""
        caller, _ = self._caller_of(ctx)
        session = await self._session_of(ctx, caller)
        wishes = wishes_of(ctx, bearer=caller.bearer)
        return caller, exchange_for(ctx, session=session, wishes=wishes)

    async def _session_of(self, ctx: Context, caller: Caller) -> SessionId:
        _, chain = await self._gateway.session_of(caller, self._context_of(ctx))
        return chain.session

    def _context_of(self, ctx: Context) -> CallContext:
        caller, headers = self._caller_of(ctx)
        meta = _mapping((ctx.params or {}).get("_meta"))
        return read_context(headers, meta, caller=caller)

    def _noted(self, ctx: Context, whole: Json) -> Members:
        """Return a result for the SDK to check, with what its client's era must find in it."""
        if is_modern(ctx):
            if (
                ctx.method in CACHEABLE_METHODS
                and whole.get("resultType", "complete") == "complete"
            ):
                whole = {"ttlMs": 0, "cacheScope": "private", **whole}
            whole = {"resultType": "complete", **whole}
        ctx.lifespan_context.whole = whole
        return dict(whole)


def _bare(ctx: Context) -> dict[str, Any]:
    """Return a request's parameters without its `_meta`, which an exchange carries."""
    return {key: value for key, value in (ctx.params or {}).items() if key != "_meta"}


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
