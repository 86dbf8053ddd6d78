"""Who may use the admin interface: administrators, and nobody else."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_store.audit import Actor
from memory_store.errors import StoreError
from memory_store.identities import Role
from runtime.admin.parts import AdminParts
from runtime.failures import INVALID_REQUEST, Problem, ProblemError, problem_for
from runtime.http_guard import bearer_token
from runtime.problem_response import response_of

_ACTOR_KEY = "flyball.actor"
# What a probe or a scraper asks for; none of it tells about a tenant.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

_UNAUTHENTICATED = Problem(
    status=HTTPStatus.UNAUTHORIZED,
    code=INVALID_REQUEST,
    title="Unauthenticated",
    detail="Send Authorization: Bearer with the token of an administrator.",
    headers={"WWW-Authenticate": "Bearer"},
)
_FORBIDDEN = Problem(
    status=HTTPStatus.FORBIDDEN,
    code=INVALID_REQUEST,
    title="Forbidden",
    detail="This token is an agent's; an administrator's is needed.",
)


class AdministratorsOnly:
    """Lets only administrators through, before a byte of the body is read.

    It stands before the routes, so that a route can neither be forgotten nor be probed for.
    """

    def __init__(self, app: ASGIApp, *, parts: AdminParts) -> None:
        """Take what to protect."""
        self._app = app
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on with the name of who sent it."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or _ACTOR_KEY in scope:
            await self._app(scope, receive, send)
            return
        try:
            scope[_ACTOR_KEY] = await self._administrator(bearer_token(scope))
        except (ProblemError, StoreError) as error:
            await response_of(problem_for(error), path=scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _administrator(self, secret: str | None) -> Actor:
        if secret is None:
            raise ProblemError(_UNAUTHENTICATED)
        identity = await self._parts.store.principals.authenticate(
            secret, now_ms=self._parts.clock.now_ms()
        )
        if identity is None:
            raise ProblemError(_UNAUTHENTICATED)
        if identity.role is not Role.ADMIN:
            raise ProblemError(_FORBIDDEN)
        return Actor(name=identity.principal)


def in_the_name_of(scope: Scope, actor: Actor) -> Scope:
    """Return a request as one of `actor`, who was recognised elsewhere in this process.

    No request that comes over a connection can have this: servers make scopes themselves.
    """
    return {**scope, _ACTOR_KEY: actor}


def _actor(request: Request) -> Actor:
    actor: Actor = request.scope[_ACTOR_KEY]
    return actor


By = Annotated[Actor, Depends(_actor)]
