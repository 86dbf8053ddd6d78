"""The agents' listener: who calls, then MCP or the model front."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from governor.ids import PrincipalId, TenantId
from memory_store.errors import StoreUnavailableError
from memory_store.identities import Identity, Role
from runtime.http_guard import BodyLimit, HostGuard, refuse
from tool_gateway.front.mcp_http import CALLER_KEY, McpFront
from tool_gateway.identity import Caller

Authenticate = Callable[[str], Awaitable[Identity | None]]
_BEARER = "bearer "
_CHALLENGE = ((b"www-authenticate", b'Bearer realm="flyball"'),)


class AgentAuth:
    """Names the caller of each request, or answers 401 or 403."""

    def __init__(self, app: ASGIApp, *, authenticate: Authenticate, open_to: Caller | None) -> None:
        """Wrap `app`; `open_to` is who everybody is when authentication is switched off."""
        self._app = app
        self._authenticate = authenticate
        self._open_to = open_to

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its caller."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller = self._open_to
        if caller is None:
            try:
                identity = await self._identify(scope)
            except StoreUnavailableError:
                text = "Tokens cannot be checked at the moment; try again."
                await refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, text)
                return
            if identity is None:
                text = "Send an agent's token: Authorization: Bearer fbt_… (see `flyball token`)."
                await refuse(send, HTTPStatus.UNAUTHORIZED, text, headers=_CHALLENGE)
                return
            if identity.role is not Role.AGENT:
                text = "This is an administrator's token; agents have their own."
                await refuse(send, HTTPStatus.FORBIDDEN, text)
                return
            caller = Caller(
                tenant=identity.tenant, agent=identity.principal, token_id=identity.token_id
            )
        scope[CALLER_KEY] = caller
        await self._app(scope, receive, send)

    async def _identify(self, scope: Scope) -> Identity | None:
        sent = [
            value.decode("latin-1") for key, value in scope["headers"] if key == b"authorization"
        ]
        if len(sent) != 1 or not sent[0].lower().startswith(_BEARER):
            return None
        return await self._authenticate(sent[0][len(_BEARER) :].strip())


def open_caller(tenant: TenantId, agent: PrincipalId) -> Caller:
    """Return who everybody is while authentication is off."""
    return Caller(tenant=tenant, agent=agent, token_id="none")  # noqa: S106 - not a secret


def agents_app(
    *,
    front: McpFront,
    model_routes: list[BaseRoute],
    authenticate: Authenticate,
    open_to: Caller | None,
    allowed_hosts: tuple[str, ...],
    body_bytes_max: int,
) -> ASGIApp:
    """Return the application of the agents' listener."""
    routes: list[BaseRoute] = [Route("/mcp", endpoint=front), *model_routes]
    app: ASGIApp = Starlette(routes=routes)
    app = AgentAuth(app, authenticate=authenticate, open_to=open_to)
    app = BodyLimit(app, bytes_max=body_bytes_max)
    return HostGuard(app, allowed_hosts=allowed_hosts)
