"""A ceiling on request bodies, answered like every other error."""

from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.admin.problems import response_of
from runtime.failures import INVALID_REQUEST, Problem


class BodyLimit:
    """Hands on whole bodies of at most `bytes_max`, and answers 413 for larger ones.

    A body here is one small JSON document, which is read whole in any case. Starlette's own
    limit would replace each answer to a large request, even a 401, with plain text.
    """

    def __init__(self, app: ASGIApp, *, bytes_max: int) -> None:
        """Take what to protect."""
        self._app = app
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on with the body that was read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        body = b""
        more = True
        if declared.isdecimal() and int(declared) > self._bytes_max:
            await self._refuse(scope, receive, send)
            return
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return  # the client has gone; nobody waits for an answer
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._bytes_max:
                await self._refuse(scope, receive, send)
                return
        await self._app(scope, _first_then(body, receive), send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = Problem(
            status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            code=INVALID_REQUEST,
            title="Too large",
            detail=f"A body here has at most {self._bytes_max} bytes.",
        )
        await response_of(problem, path=scope["path"])(scope, receive, send)


def _first_then(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives `body` once and then what `receive` gives."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message
