"""What is answered below the memory's address where nothing is served, as a problem document."""

from collections.abc import Sequence
from http import HTTPStatus

from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from runtime.failures import INVALID_PARAMS, INVALID_REQUEST, Problem
from runtime.problem_response import response_of

BASE = "/memory/v1"
_OFF = "the experience memory is switched off here ([memory] enabled = false)"


class Elsewhere:
    """Answers what none of some routes serves: 405 where another method is served, else 404."""

    def __init__(self, routes: Sequence[Route] = (), *, why: str | None = None) -> None:
        """Take what is served, and what to say of everything else if there is a word for it."""
        self._routes = routes
        self._why = why

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        problem = self._problem(scope)
        await response_of(problem, path=scope["path"])(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem:
        allowed = sorted(
            method
            for route in self._routes
            if route.matches(scope)[0] is Match.PARTIAL
            for method in route.methods or ()
        )
        method = Request(scope).method
        if not allowed:
            return Problem(
                status=HTTPStatus.NOT_FOUND,
                code=INVALID_PARAMS,
                title="Not found",
                detail=self._why or f"there is nothing at this address below {BASE}",
            )
        named = ", ".join(dict.fromkeys(allowed))
        return Problem(
            status=HTTPStatus.METHOD_NOT_ALLOWED,
            code=INVALID_REQUEST,
            title="Method not allowed",
            detail=f"{method!r:.40} is not served here; {named} is",
            headers={"Allow": named},
        )


def with_elsewhere(routes: list[Route]) -> list[Route]:
    """Return routes of the memory with one behind them that answers everything else."""
    return [*routes, *_behind(Elsewhere(routes))]


def switched_off() -> list[Route]:
    """Return the routes where there is no memory, which say so."""
    return _behind(Elsewhere(why=_OFF))


def _behind(app: Elsewhere) -> list[Route]:
    # A class's instance is served whatever the method.
    return [Route(BASE, endpoint=app), Route(f"{BASE}/{{rest:path}}", endpoint=app)]
