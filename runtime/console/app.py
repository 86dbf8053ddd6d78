"""The console's application, put together."""

import logging
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_store.errors import StoreError
from runtime.console.door import Door, store_problem
from runtime.console.framing import Framing
from runtime.console.inside import AnsweredProblemError
from runtime.console.own_name import OwnName
from runtime.console.pages import ROUTES
from runtime.console.parts import ConsoleParts
from runtime.console.paths import PREFIX
from runtime.console.rendering import page, plain_problem
from runtime.http_guard import BodyLimit

BODY_BYTES_MAX = 256 * 1024

# Nothing is loaded from elsewhere, nothing in a page's own text runs, nobody frames it.
_CONTENT = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self'; "
    "connect-src 'self'; "
    "form-action 'self'; "
    "base-uri 'none'; "
    "frame-ancestors 'none'; "
)
_HEADERS = {
    "Content-Security-Policy": _CONTENT,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

logger = logging.getLogger(__name__)


class WithConsole:
    """Answers the console's paths with the console, and all others with the admin API."""

    def __init__(self, api: ASGIApp, console: ASGIApp) -> None:
        """Take both."""
        self._api = api
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to whose path it has."""
        path = scope.get("path", "")
        is_ours = path == PREFIX or path.startswith(f"{PREFIX}/")
        await (self._console if is_ours else self._api)(scope, receive, send)


def console_app(parts: ConsoleParts) -> ASGIApp:
    """Return the application for the console's paths.

    Checking Host is the listener's part.
    """
    app = Starlette(
        routes=ROUTES,
        # The first is met first: a body is read once its sender is known.
        middleware=[
            Middleware(_Guarded),
            Middleware(OwnName, host=parts.host),
            Middleware(BodyLimit, bytes_max=BODY_BYTES_MAX),
            Middleware(Door, parts=parts),
            Middleware(Framing),
        ],
        exception_handlers={
            AnsweredProblemError: _on_problem,
            HTTPException: _on_http,
            StoreError: _on_store,
            Exception: _on_bug,
        },
    )
    app.router.redirect_slashes = False
    return app


class _Guarded:
    """Puts the headers on every answer that tell browsers what a page may do."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, guarded)


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnsweredProblemError)
    answer = error.answer
    return page(request, "problem.html", status=answer.status, problem=answer.body)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if request.scope["path"] == f"{PREFIX}/":
        return RedirectResponse(PREFIX, status_code=HTTPStatus.SEE_OTHER)
    status = HTTPStatus(error.status_code)
    return plain_problem(request, status, "There is no such page in the console.")


async def _on_store(request: Request, error: Exception) -> Response:
    assert isinstance(error, StoreError)
    return store_problem(request, error)


async def _on_bug(request: Request, _: Exception) -> Response:
    # Starlette raises the error again after this answer, so that the server logs it.
    return plain_problem(
        request,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "The console failed at this page; the sidecar's log says why.",
    )
