"""The routes of the model front: chat completions, and the list of what is served."""

import json
from collections.abc import Awaitable, Callable

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from governor.scope import ScopeChain
from runtime.model_gateway.answers import (
    Answer,
    invalid_answer,
    unknown_session_answer,
    unserved_answer,
)
from runtime.model_gateway.chat import ChatGateway
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.models import models_served
from runtime.model_gateway.request import parse_chat
from tool_gateway.errors import InvalidContextError, UnknownSessionError
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import CallContext, Caller, read_context

Overhear = Callable[[ScopeChain, str], Awaitable[None]]
SessionOf = Callable[[Caller, CallContext], Awaitable[tuple[str, ScopeChain]]]

# What servers note for a client that closed the connection; nobody is left to read it.
CLIENT_CLOSED = 499
# Whatever a client asks for under /v1 is answered in the words that its library reads.
_CHAT, _MODELS = "/v1/chat/completions", "/v1/models"
_SERVED = {_CHAT: "POST", _MODELS: "GET, HEAD"}
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class ModelFront:
    """Serves a chat gateway over HTTP; authentication is done before a request gets here."""

    def __init__(
        self, chat: ChatGateway, *, session_of: SessionOf, overhear: Overhear | None = None
    ) -> None:
        """Take the gateway, how a caller's session is found, and who hears what users say."""
        self._chat = chat
        self._session_of = session_of
        self._overhear = overhear

    def routes(self) -> list[Route]:
        """Return the routes for the agents' application."""
        return [
            Route(_CHAT, self._complete, methods=["POST"]),
            Route(_MODELS, self._models, methods=["GET"]),
            Route("/v1/{path:path}", self._unserved, methods=_METHODS),
        ]

    async def _complete(self, request: Request) -> Response:
        try:
            content = await request.body()
        except ClientDisconnect:
            return Response(status_code=CLIENT_CLOSED)
        return await _while_connected(request, lambda: self._answer(request, content))

    async def _answer(self, request: Request, content: bytes) -> Response:
        caller: Caller = request.scope[CALLER_KEY]
        try:
            context = read_context(request.headers, {}, caller=caller)
            chat = parse_chat(content)
            session_name, chain = await self._session_of(caller, context)
            if self._overhear is not None:
                await self._overhear(chain, chat.opening)
            answer = await self._chat.run(
                chat, session_name=session_name, chain=chain, context=context
            )
        except InvalidContextError as error:
            answer = invalid_answer(InvalidRequestError(str(error)))
        except InvalidRequestError as error:
            answer = invalid_answer(error)
        except UnknownSessionError as error:
            answer = unknown_session_answer(error)
        return _response(answer)

    async def _unserved(self, request: Request) -> Response:
        path = request.scope["path"]
        return _response(unserved_answer(request.method, path, methods=_SERVED.get(path)))

    async def _models(self, request: Request) -> Response:
        return _response(Answer(status=200, body=models_served(self._chat.tiers)))


async def _while_connected(
    request: Request, respond: Callable[[], Awaitable[Response]]
) -> Response:
    """Return the response, or end the work as soon as the client is gone.

    The body was read before, so all that can still arrive is the end of the connection.
    """
    response = Response(status_code=CLIENT_CLOSED)
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        response = await respond()
        tasks.cancel_scope.cancel()
    return response


def _response(answer: Answer) -> Response:
    # Escaped to ASCII, because a provider may have answered with half of a surrogate pair.
    content = json.dumps(answer.body, separators=(",", ":")).encode()
    return Response(
        content,
        status_code=answer.status,
        headers=dict(answer.headers),
        media_type="application/json",
    )
