"""A host name that is the console's alone, because cookies know no ports.

What a browser keeps for 127.0.0.1 it sends to every port of 127.0.0.1, also to a server that an
agent has started there (RFC 6265, section 8.5), and a `SameSite` cookie goes along, since sites
have no ports either. So whoever comes by a loopback name is led to another one, which resolves to
the same machine (RFC 6761, section 6.3) and is another site to a browser.
"""

from http import HTTPStatus
from urllib.parse import urlunsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.http_guard import LOOPBACK, bare_host, header_values


class OwnName:
    """Leads whoever came by a loopback name to the console's own."""

    def __init__(self, app: ASGIApp, *, host: str) -> None:
        """Take what to protect; with no `host` it is served by whatever name somebody came."""
        self._app = app
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if scope["type"] != "http" or not self._host or not _came_by_loopback(scope):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        port = f":{request.url.port}" if request.url.port is not None else ""
        there = urlunsplit(
            (request.url.scheme, f"{self._host}{port}", request.url.path, request.url.query, "")
        )
        if request.method in {"GET", "HEAD"}:
            answer: Response = RedirectResponse(there, status_code=HTTPStatus.TEMPORARY_REDIRECT)
        else:
            answer = PlainTextResponse(
                f"Open the console at {there}.\n", status_code=HTTPStatus.MISDIRECTED_REQUEST
            )
        await answer(scope, receive, send)


def _came_by_loopback(scope: Scope) -> bool:
    return any(bare_host(host) in LOOPBACK for host in header_values(scope, b"host"))
