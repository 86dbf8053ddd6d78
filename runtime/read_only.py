"""What callers are told who may only read, where a request would change something."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from governor.policy import Policy
from runtime.failures import INVALID_REQUEST, Problem
from runtime.problem_response import response_of
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import Caller
from tool_gateway.ports import PolicySource

Endpoint = Callable[[Request], Awaitable[Response]]

_WITHOUT_SCOPES = Problem(
    status=HTTPStatus.FORBIDDEN,
    code=INVALID_REQUEST,
    title="Insufficient scope",
    detail="The token is good for reading only: it has not the scopes to change anything.",
    headers={"WWW-Authenticate": 'Bearer error="insufficient_scope"'},
)


def refused_change(caller: Caller, policy: Policy) -> Problem | None:
    """Return what a caller is told who may change nothing, by its token or by an access rule."""
    if caller.is_read_only:
        return _WITHOUT_SCOPES
    rule = policy.access.read_only_by(tenant=caller.tenant, agent=caller.agent)
    if rule is None:
        return None
    return Problem(
        status=HTTPStatus.FORBIDDEN,
        code=INVALID_REQUEST,
        title="Forbidden",
        detail=f"You may only read (access rule {rule.name!r}).",
    )


def changing(endpoint: Endpoint, policy: PolicySource) -> Endpoint:
    """Return an endpoint that changes something, refused to callers who may only read."""

    async def guarded(request: Request) -> Response:
        refused = refused_change(request.scope[CALLER_KEY], policy())
        if refused is not None:
            return response_of(refused, path=request.scope["path"])
        return await endpoint(request)

    return guarded
