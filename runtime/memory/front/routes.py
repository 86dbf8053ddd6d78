"""The experience memory over HTTP: each request is a call of one of the memory's tools."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from governor.experience.experience import Experience
from governor.ids import ExperienceId, SessionId
from governor.scope import ScopeChain
from memory_store.paging import Page
from runtime.failures import (
    DENIED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    UNAVAILABLE,
    Problem,
    problem_for,
)
from runtime.memory.front.elsewhere import BASE, with_elsewhere
from runtime.memory.namespaces.rooms import Room, room_json
from runtime.problem_response import response_of
from tool_gateway.errors import GatewayError
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.gateway import Gateway
from tool_gateway.identity import Caller, read_context
from tool_gateway.memory import definitions as tools
from tool_gateway.memory.tools import FAULT_META
from tool_gateway.results import (
    BUDGET_META,
    CALL_META,
    DENIAL_META,
    EXPERIENCE_META,
    GRANTED_META,
    ToolResult,
)

_LISTED_DEFAULT = 50
_LISTED_MAX = 200
_RANGES_MAX = 256
_DIGITS_MAX = 18
_FAULTS = {
    "not_found": (HTTPStatus.NOT_FOUND, INVALID_PARAMS, "Not found"),
    "damaged": (HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR, "Experience damaged"),
    "unavailable": (HTTPStatus.SERVICE_UNAVAILABLE, UNAVAILABLE, "Store unavailable"),
    "refused": (HTTPStatus.UNPROCESSABLE_ENTITY, INVALID_PARAMS, "Invalid request"),
}
# What numbers a query of a reading may have, by the argument that they become.
_RANGE_NUMBERS = ("offset", "max_bytes", "max_tokens")
_NUMBERS = (*_RANGE_NUMBERS, "context_lines", "max_matches")
_WORDS = ("encoding", "grep", "ignore_case")


class Listing(Protocol):
    """Knows what an agent has kept."""

    async def listed(
        self, chain: ScopeChain, *, limit: int, cursor: str | None = None
    ) -> Page[Experience]:
        """Return a page of the agent's own, the latest first."""
        ...

    async def about(self, chain: ScopeChain, index: ExperienceId) -> Experience:
        """Return what is known of an experience that the agent may read."""
        ...

    async def namespaces(
        self, chain: ScopeChain, *, after: str = ""
    ) -> tuple[Sequence[Room], str | None]:
        """Return namespaces of which the agent may read or write, and where to go on."""
        ...


class MemoryFront:
    """Serves an agent's memory; authentication is done before a request gets here."""

    def __init__(self, gateway: Gateway, listing: Listing) -> None:
        """Take what runs calls, and what lists."""
        self._gateway = gateway
        self._listing = listing

    def routes(self) -> list[Route]:
        """Return the routes for the agents' application."""
        one = f"{BASE}/experiences/{{index}}"
        routes = [
            Route(f"{BASE}/experiences", self._write, methods=["POST"]),
            Route(f"{BASE}/experiences", self._list, methods=["GET"]),
            Route(f"{one}/content", self._content, methods=["GET"]),
            Route(f"{one}/around", self._around, methods=["POST"]),
            Route(one, self._read, methods=["GET"]),
            Route(one, self._forget, methods=["DELETE"]),
            Route(f"{BASE}/search", self._search, methods=["POST"]),
            Route(f"{BASE}/context", self._context, methods=["POST"]),
            Route(f"{BASE}/feedback", self._feedback, methods=["POST"]),
            Route(f"{BASE}/namespaces", self._namespaces, methods=["GET"]),
        ]
        return with_elsewhere(routes)

    async def _write(self, request: Request) -> Response:
        return await self._posted(request, tools.WRITE, status=HTTPStatus.CREATED)

    async def _search(self, request: Request) -> Response:
        return await self._posted(request, tools.SEARCH)

    async def _context(self, request: Request) -> Response:
        return await self._posted(request, tools.CONTEXT)

    async def _feedback(self, request: Request) -> Response:
        return await self._posted(request, tools.FEEDBACK)

    async def _around(self, request: Request) -> Response:
        return await self._posted(request, tools.EXPAND, index=request.path_params["index"])

    async def _forget(self, request: Request) -> Response:
        return await self._answered(
            request, tools.FORGET, {"indices": [request.path_params["index"]]}
        )

    async def _read(self, request: Request) -> Response:
        """Answer with a range of the content as text or base64, and what is known of it."""
        arguments = _asked(request)
        if isinstance(arguments, Problem):
            return response_of(arguments, path=request.url.path)
        return await self._answered(request, tools.READ, arguments)

    async def _content(self, request: Request) -> Response:
        """Answer with the bytes themselves, all of them where no range is asked for."""
        arguments = _asked(request, numbers=_RANGE_NUMBERS, words=())
        if isinstance(arguments, Problem):
            return response_of(arguments, path=request.url.path)
        is_range = not arguments.keys().isdisjoint(("max_bytes", "max_tokens"))
        try:
            size = await self._size_of(request)
        except GatewayError as error:
            return response_of(problem_for(error), path=request.url.path)
        # As much as there is, so that no more is held of a budget.
        arguments = {"max_bytes": size, **arguments, "encoding": "base64"}
        content, headers = b"", dict[str, str]()
        for _ in range(_RANGES_MAX):
            result = await self._called(request, tools.READ, arguments, takes_bytes=True)
            if isinstance(result, Response):
                return result
            shown = result.structured
            if not isinstance(shown, Mapping):
                detail = "index: only an experience (exp_…) has its bytes here"
                return response_of(_invalid(detail), path=request.url.path)
            content += base64.b64decode(str(shown["content"]))
            headers = headers or _content_headers(result, shown)
            arguments["offset"] = shown["next_offset"]
            if is_range or shown["next_offset"] is None:
                break
        return Response(content, headers=headers)

    async def _size_of(self, request: Request) -> int:
        """Return how many bytes a range of the experience takes that is asked for.

        Raises:
            GatewayError: there is no such experience for the caller, or nobody can say.
        """
        caller: Caller = request.scope[CALLER_KEY]
        index = ExperienceId(request.path_params["index"])
        one = await self._listing.about(_chain_of(caller), index)
        return max(tools.READ_BYTES_MIN, min(one.size_bytes, tools.READ_BYTES_MAX))

    async def _list(self, request: Request) -> Response:
        """Answer with a page of the caller's own, without a word of what stands in them."""
        caller: Caller = request.scope[CALLER_KEY]
        path = request.url.path
        limit = _number(request.query_params.get("limit", str(_LISTED_DEFAULT)))
        if limit is None or not 1 <= limit <= _LISTED_MAX:
            return response_of(_invalid(f"limit: a number from 1 to {_LISTED_MAX}"), path=path)
        if not self._gateway.offers(caller, tools.READ):
            return response_of(_invalid("memory_read is not yours to call"), path=path)
        try:
            page = await self._listing.listed(
                _chain_of(caller), limit=limit, cursor=request.query_params.get("cursor")
            )
        except GatewayError as error:
            return response_of(problem_for(error), path=path)
        return JSONResponse({"items": [_listed_json(one) for one in page.items], "next": page.next})

    async def _namespaces(self, request: Request) -> Response:
        """Answer with the caller's namespaces: what it may do there, and how much room is left.

        Free like the list of its own: it shows no word of what stands in them.
        """
        caller: Caller = request.scope[CALLER_KEY]
        path = request.url.path
        if not any(self._gateway.offers(caller, tool) for tool in (tools.READ, tools.WRITE)):
            detail = "neither memory_read nor memory_write is yours to call"
            return response_of(_invalid(detail), path=path)
        try:
            rooms, following = await self._listing.namespaces(
                _chain_of(caller), after=request.query_params.get("cursor", "")
            )
        except GatewayError as error:
            return response_of(problem_for(error), path=path)
        items = [room_json(one) for one in rooms]
        return JSONResponse({"items": items, "next": following})

    async def _posted(
        self,
        request: Request,
        tool: str,
        *,
        status: HTTPStatus = HTTPStatus.OK,
        **more: object,
    ) -> Response:
        try:
            body = json.loads(await request.body() or b"{}")
        except (ValueError, RecursionError) as error:
            return response_of(_invalid(f"the body is no JSON: {error}"), path=request.url.path)
        if not isinstance(body, dict):
            return response_of(_invalid("the body should be an object"), path=request.url.path)
        return await self._answered(request, tool, {**body, **more}, status=status)

    async def _answered(
        self,
        request: Request,
        tool: str,
        arguments: Mapping[str, object],
        *,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> Response:
        result = await self._called(request, tool, arguments)
        if isinstance(result, Response):
            return result
        shape = dict(result.structured) if isinstance(result.structured, Mapping) else {}
        text = result.content[0].get("text") if result.content else ""
        if tool in (tools.SEARCH, tools.EXPAND, tools.CONTEXT):
            shape["rendered"] = text
        elif not shape:
            shape["content"] = text
        meta = result.meta.get(EXPERIENCE_META)
        if tool == tools.READ and isinstance(meta, Mapping):
            shape = {**meta, **shape}
        return JSONResponse({**shape, "flyball": _said(result)}, status_code=status)

    async def _called(
        self,
        request: Request,
        tool: str,
        arguments: Mapping[str, object],
        *,
        takes_bytes: bool = False,
    ) -> ToolResult | Response:
        """Return what the call answers, else the problem that it ended with."""
        caller: Caller = request.scope[CALLER_KEY]
        path = request.url.path
        try:
            context = replace(
                read_context(request.headers, {}, caller=caller), takes_bytes=takes_bytes
            )
            result = await self._gateway.call(caller, context, tool=tool, arguments=arguments)
        except GatewayError as error:
            return response_of(problem_for(error), path=path)
        problem = _problem_of(result)
        return result if problem is None else response_of(problem, path=path)


def _chain_of(caller: Caller) -> ScopeChain:
    """Return whom a question is of that is of no session."""
    return ScopeChain(tenant=caller.tenant, agent=caller.agent, session=SessionId(""))


def _problem_of(result: ToolResult) -> Problem | None:
    denial = result.meta.get(DENIAL_META)
    if isinstance(denial, Mapping):
        return _denied(denial)
    if not result.is_error:
        return None
    if (said := result.meta.get(CALL_META)) and _is_running(said):
        return _running(result)
    kind = str(result.meta.get(FAULT_META, "refused"))
    status, code, title = _FAULTS[kind]
    words = str(result.content[0].get("text", "")) if result.content else title
    return Problem(status=status, code=code, title=title, detail=words, members=_members(result))


def _is_running(said: object) -> bool:
    return isinstance(said, Mapping) and said.get("replayed") == "in_progress"


def _running(result: ToolResult) -> Problem:
    return Problem(
        status=HTTPStatus.CONFLICT,
        code=UNAVAILABLE,
        title="In progress",
        detail=str(result.content[0].get("text", "")),
        members=_members(result),
        headers={"Retry-After": "1"},
    )


def _denied(denial: Mapping[str, object]) -> Problem:
    remedy = denial.get("remedy")
    words = str(remedy.get("text")) if isinstance(remedy, Mapping) else "It was denied."
    retry_ms = denial.get("retry_after_ms")
    headers = {"Retry-After": str(-(-retry_ms // 1000))} if isinstance(retry_ms, int) else {}
    return Problem(
        status=HTTPStatus.TOO_MANY_REQUESTS,
        code=DENIED,
        title="Denied",
        detail=words,
        members={"flyball": {"denial": dict(denial)}},
        headers=headers,
    )


def _members(result: ToolResult) -> dict[str, object]:
    said = _said(result)
    return {"flyball": said} if said else {}


def _said(result: ToolResult) -> dict[str, object]:
    """Return what the governor says of the call: what it used, and what remains."""
    named = {"call": CALL_META, "budget": BUDGET_META, "granted": GRANTED_META}
    return {name: result.meta[key] for name, key in named.items() if key in result.meta}


def _asked(
    request: Request, *, numbers: Sequence[str] = _NUMBERS, words: Sequence[str] = _WORDS
) -> dict[str, object] | Problem:
    """Return the arguments of a reading in the path and the query, or what is wrong there."""
    asked: dict[str, object] = {"index": request.path_params["index"]}
    for name, value in request.query_params.items():
        if name in numbers:
            number = _number(value)
            if number is None:
                return _invalid(f"{name}: {value!r:.80} is no number")
            asked[name] = number
        elif name in words:
            asked[name] = value == "true" if name == "ignore_case" else value
        else:
            return _invalid(f"{name!r:.80}: there is no such parameter here")
    return asked


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if is_number else None


def _invalid(detail: str) -> Problem:
    status, code, title = _FAULTS["refused"]
    return Problem(status=status, code=code, title=title, detail=detail)


def _content_headers(result: ToolResult, shown: Mapping[str, object]) -> dict[str, str]:
    """Return the headers of the bytes themselves, which no browser is to run."""
    meta = result.meta[EXPERIENCE_META]
    assert isinstance(meta, Mapping), "it was read"
    proof = json.dumps(meta["receipt"])
    return {
        "Content-Type": str(meta["media_type"]),
        "Content-Disposition": "attachment",
        "X-Content-Type-Options": "nosniff",
        "Flyball-Lane": str(meta["lane"]),
        "Flyball-Role": str(meta["role"]),
        "Flyball-Receipt": proof,
        "Flyball-Total-Bytes": str(shown["total_bytes"]),
    }


def _listed_json(one: Experience) -> dict[str, object]:
    return {
        "index": one.experience_id,
        "kind": one.kind.value,
        "lane": one.lane.value,
        "standing": one.standing.value,
        "media_type": one.media_type,
        "bytes": one.size_bytes,
        "tokens": one.tokens,
        "learned_at_ms": one.learned_at_ms,
    }
