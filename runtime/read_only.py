"""What callers are told whose token is good for reading only, and the routes that tell them."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from runtime.failures import INVALID_REQUEST, Problem
from runtime.problem_response import response_of
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import Caller

Endpoint = Callable[[Request], Awaitable[Response]]

ONLY_READS = Problem(
    status=HTTPStatus.FORBIDDEN,
    code=INVALID_REQUEST,
    title="Insufficient scope",
    detail="The token is good for reading only: it has not the scopes to change anything.",
    headers={"WWW-Authenticate": 'Bearer error="insufficient_scope"'},
)


def changing(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that changes something, refused to callers who may only read."""

    async def guarded(request: Request) -> Response:
        caller: Caller = request.scope[CALLER_KEY]
        if caller.is_read_only:
            return response_of(ONLY_READS, path=request.scope["path"])
        return await endpoint(request)

    return guarded
