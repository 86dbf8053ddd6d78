"""The agents' listener: who calls, then MCP or the model front."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_store.errors import StoreUnavailableError
from memory_store.identities import Identity, Role
from memory_store.tokens import OUR_PREFIX
from runtime.failures import INVALID_REQUEST, Problem, problem_for
from runtime.http_guard import BodyLimit, HostGuard, agent_token
from runtime.naming import OUTCOMES
from runtime.oauth.door import OAuthDoor
from runtime.oauth.resource import document_of, document_paths, unauthenticated
from runtime.problem_response import on_http, response_of
from runtime.traced_requests import TracedRequests
from tool_gateway.errors import LedgerUnavailableError
from tool_gateway.front.mcp_http import CALLER_KEY, SSE_MESSAGES_PATH, SSE_PATH
from tool_gateway.front.modern import ModernFront
from tool_gateway.identity import Caller

Authenticate = Callable[[str], Awaitable[Identity | None]]
Met = Callable[[Caller], Awaitable[None]]
PinOf = Callable[[str], str | None]
_MCP, _MODELS = "/mcp", "/v1/"
# Whose spans are named by their path; others hold names that clients choose.
ROUTES_NAMED = (
    *(_MCP, SSE_PATH, OUTCOMES, "/v1/chat/completions", "/v1/messages", "/v1/responses"),
    *("/v1/embeddings", "/v1/messages/count_tokens"),
)
_STRANGER = Problem(
    status=HTTPStatus.UNAUTHORIZED,
    code=INVALID_REQUEST,
    title="Unauthenticated",
    detail=(
        "Send an agent's token: Authorization: Bearer fbt_…, or x-api-key: fbt_… "
        "(`flyball token` makes one)."
    ),
    headers={"WWW-Authenticate": "Bearer"},
)
_NOT_AN_AGENT = Problem(
    status=HTTPStatus.FORBIDDEN,
    code=INVALID_REQUEST,
    title="Forbidden",
    detail="This is an administrator's token; agents have their own.",
)


class AgentAuth:
    """Names the caller of each request, or answers 401 or 403."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticate: Authenticate,
        open_to: Caller | None,
        oauth: OAuthDoor | None = None,
        met: Met | None = None,
        pin_of: PinOf = lambda _: None,
    ) -> None:
        """Wrap `app`; `open_to` is who everybody is when authentication is switched off.

        Tokens that are not of this sidecar's own making are shown to `oauth`. `met` hears of each
        caller before its request is served; after that `pin_of` knows whether its token is good
        for one session alone.
        """
        self._pin_of = pin_of
        self._app = app
        self._met = met
        self._authenticate = authenticate
        self._open_to = open_to
        self._oauth = oauth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its caller."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        known = self._open_to or await self._known(scope)
        if isinstance(known, Problem):
            await response_of(known, path=scope["path"])(scope, receive, send)
            return
        if self._met is not None:
            await self._met(known)
        try:
            pin = self._pin_of(known.token_id)
        except LedgerUnavailableError as error:
            # A key that is good for one session must not be taken for one that is for all.
            await response_of(problem_for(error), path=scope["path"])(scope, receive, send)
            return
        scope[CALLER_KEY] = known if pin is None else replace(known, pin=pin)
        await self._app(scope, receive, send)

    async def _known(self, scope: Scope) -> Caller | Problem:
        """Return whose token the request carries, or why it is not let in."""
        secret = agent_token(scope)
        try:
            if secret is not None and self._oauth is not None and not secret.startswith(OUR_PREFIX):
                return await self._oauth.caller_of(secret)
            identity = None if secret is None else await self._authenticate(secret)
        except StoreUnavailableError as error:
            return problem_for(error)
        if identity is None:
            return self._stranger(secret)
        if identity.role is not Role.AGENT:
            return _NOT_AN_AGENT
        return Caller(tenant=identity.tenant, agent=identity.principal, token_id=identity.token_id)

    def _stranger(self, secret: str | None) -> Problem:
        if self._oauth is None:
            return _STRANGER
        why = None if secret is None else "the token is not known"
        return unauthenticated(self._oauth.terms, why=why)


class OpenDocument:
    """Serves one document to anybody at some paths, and everything else through `others`."""

    def __init__(self, document: bytes, paths: frozenset[str], *, others: ASGIApp) -> None:
        """Take the JSON, and where it stands."""
        self._document = document
        self._paths = paths
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        is_here = scope["type"] == "http" and scope["path"] in self._paths
        if is_here and scope["method"] in {"GET", "HEAD"}:
            headers = {"Cache-Control": "public, max-age=300"}
            answer = Response(self._document, media_type="application/json", headers=headers)
            await answer(scope, receive, send)
        else:
            await self._others(scope, receive, send)


class Endpoint:
    """A method that is an ASGI application."""

    def __init__(self, app: ASGIApp) -> None:
        """Take the method."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call it."""
        await self._app(scope, receive, send)


class ByPath:
    """Sends requests of MCP and of models to their fronts, and all others through the routes."""

    def __init__(self, *, mcp: ASGIApp, models: ASGIApp, others: ASGIApp) -> None:
        """Take all three."""
        self._mcp = mcp
        self._models = models
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        app = self._others
        if scope["type"] == "http":
            path: str = scope["path"]
            if path == _MCP:
                app = self._mcp
            elif path.startswith(_MODELS) and path != OUTCOMES:
                app = self._models
        await app(scope, receive, send)


def _routed(routes: list[BaseRoute]) -> Starlette:
    """Return what serves the other paths, and says of all others that nothing is there."""
    return Starlette(routes=routes, exception_handlers={HTTPException: on_http})


def agents_app(
    *,
    front: ModernFront,
    models: ASGIApp,
    other_routes: list[BaseRoute],
    authenticate: Authenticate,
    open_to: Caller | None,
    allowed_hosts: tuple[str, ...],
    body_bytes_max: int,
    oauth: OAuthDoor | None = None,
    met: Met | None = None,
    pin_of: PinOf = lambda _: None,
    handing: Callable[[ASGIApp], ASGIApp] | None = None,
) -> ASGIApp:
    """Return the application of the agents' listener.

    `met` hears of each caller, and `pin_of` knows the session that a token is good for if it is
    good for one alone; `handing` wraps what serves, to hand requests of other processes'
    sessions on to them.
    """
    routes: list[BaseRoute] = [
        Route(_MCP, endpoint=front),
        # Instances of a class are taken as applications of their own; methods are not.
        Route(SSE_MESSAGES_PATH, endpoint=Endpoint(front.whole.take_message), methods=["POST"]),
        Route(
            f"{SSE_MESSAGES_PATH}/{{place}}",
            endpoint=Endpoint(front.whole.take_message),
            methods=["POST"],
        ),
        Route(SSE_PATH, endpoint=Endpoint(front.whole.serve_events), methods=["GET"]),
        *other_routes,
    ]
    # A router costs a governed call more than its admission; the route still stands there for
    # whoever writes "/mcp/".
    app: ASGIApp = ByPath(mcp=front, models=models, others=_routed(routes))
    if handing is not None:
        app = handing(app)
    # A stranger's body is not read: whoever sends it must be known first.
    app = BodyLimit(app, bytes_max=body_bytes_max)
    app = TracedRequests(app, routes=ROUTES_NAMED)
    app = AgentAuth(
        app, authenticate=authenticate, open_to=open_to, oauth=oauth, met=met, pin_of=pin_of
    )
    if oauth is not None:
        # Who has no token yet reads there where to get one.
        document, paths = document_of(oauth.terms), document_paths(oauth.terms)
        app = OpenDocument(document, paths, others=app)
    return HostGuard(app, allowed_hosts=allowed_hosts)
