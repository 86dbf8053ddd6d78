"""The model front: what is served under /v1, from bytes to bytes, and nothing else.

No request of an endpoint that is not known here is passed on: what is not counted is not served.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup
from starlette.types import Receive, Scope, Send

from governor.scope import ScopeChain
from runtime.model_gateway.answer import Answer, json_answer
from runtime.model_gateway.answering import Models
from runtime.model_gateway.answers import (
    Problem,
    invalid_answer,
    problem_answer,
    unknown_model_answer,
    unknown_session_answer,
    unserved_answer,
)
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.models import model_served, models_served
from runtime.model_gateway.outlet import ClientOutlet
from runtime.model_gateway.wires.anthropic_messages import AnthropicMessages
from runtime.model_gateway.wires.anthropic_token_count import AnthropicTokenCount
from runtime.model_gateway.wires.openai_chat import OpenAIChat
from runtime.model_gateway.wires.openai_embeddings import OpenAIEmbeddings
from runtime.model_gateway.wires.openai_responses import OpenAIResponses
from runtime.model_gateway.wires.wire import Wire
from runtime.model_gateway.wishes import wishes_in
from runtime.naming import OUTCOMES
from tool_gateway.errors import InvalidContextError, UnknownSessionError
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import CallContext, Caller, read_context

logger = logging.getLogger(__name__)

ProblemOf = Callable[[Exception], Problem]
Overhear = Callable[[ScopeChain, str], Awaitable[None]]
SessionOf = Callable[[Caller, CallContext], Awaitable[tuple[str, ScopeChain]]]

PREFIX = "/v1"
WIRES: tuple[Wire, ...] = (
    OpenAIChat(),
    OpenAIResponses(),
    OpenAIEmbeddings(),
    AnthropicMessages(),
    AnthropicTokenCount(),
)
_MODELS = f"{PREFIX}/models"
_MODEL = f"{_MODELS}/"
_READS = ("GET", "HEAD")
# Most calls are over before anybody could have gone away: only the others are attended to.
ATTEND_AFTER_SECONDS = 0.25


class ModelFront:
    """Serves a model gateway over HTTP; authentication is done before a request gets here."""

    def __init__(
        self,
        gateway: Models,
        *,
        session_of: SessionOf,
        overhear: Overhear | None = None,
        wires: Sequence[Wire] = WIRES,
        problem_of: ProblemOf | None = None,
    ) -> None:
        """Take the gateway, how a caller's session is found, and who hears what users say.

        `problem_of` says what a caller is told of an error that nobody here expects. `running`
        must be entered before a request. The first of `wires` speaks where a request is of none.
        """
        self.gateway = gateway
        self._session_of = session_of
        self._overhear = overhear
        self._wires = {f"{PREFIX}{wire.path}": wire for wire in wires}
        self._plain = wires[0]
        self._problem_of = problem_of
        self._served = {
            **dict.fromkeys(self._wires, "POST"),
            _MODELS: ", ".join(_READS),
            OUTCOMES: "POST",
        }
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block runs."""
        async with anyio.create_task_group() as self._tasks:
            try:
                yield
            finally:
                self._tasks.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of the caller that the middleware named."""
        path, method = scope["path"], scope["method"]
        wire = self._wires.get(path)
        outlet = ClientOutlet(send)
        if wire is not None and method == "POST":
            body = await _body(receive)
            if body is not None:
                await self._attended(scope, wire, body, receive, outlet)
        elif path == _MODELS and method in _READS:
            await outlet.end(json_answer(200, models_served(self.gateway.tiers)))
        elif path.startswith(_MODEL) and method in _READS:
            await outlet.end(self._model(path.removeprefix(_MODEL)))
        else:
            answer = unserved_answer(self._nearest(path), method, path, served=self._served)
            await outlet.end(answer)

    def _model(self, name: str) -> Answer:
        """Return what is known of one name, as official clients ask for it."""
        model = model_served(self.gateway.tiers, name)
        return unknown_model_answer(self._plain, name) if model is None else json_answer(200, model)

    def _nearest(self, path: str) -> Wire:
        """Return the wire whose clients would ask for a path: in its words they read errors."""
        near = (wire for known, wire in self._wires.items() if path.startswith(known))
        return next(near, self._plain)

    async def _attended(
        self, scope: Scope, wire: Wire, body: bytes, receive: Receive, outlet: ClientOutlet
    ) -> None:
        """Answer a request; a client that goes away takes it back."""
        assert self._tasks is not None, "the front is running"
        with anyio.CancelScope() as cancelling:
            attending = asyncio.get_running_loop().call_later(
                ATTEND_AFTER_SECONDS, self._tasks.start_soon, _attend, receive, cancelling
            )
            try:
                await outlet.end(await self._answered(scope, wire, body, outlet))
            finally:
                attending.cancel()

    async def _answered(
        self, scope: Scope, wire: Wire, body: bytes, outlet: ClientOutlet
    ) -> Answer | None:
        """Return the answer, whatever goes wrong: a client reads errors in its wire's words."""
        try:
            return await self._answer(scope, wire, body, outlet)
        except Exception as error:
            if outlet.has_begun:
                # Its reader learns from the end of the connection that this is no whole answer.
                raise
            logger.exception("a model call failed in the sidecar itself")
            problem = None if self._problem_of is None else self._problem_of(error)
            return problem_answer(wire, problem)

    async def _answer(
        self, scope: Scope, wire: Wire, body: bytes, outlet: ClientOutlet
    ) -> Answer | None:
        """Return the answer, None where it was relayed as a stream."""
        caller: Caller = scope[CALLER_KEY]
        headers = _headers_of(scope)
        try:
            context = read_context(headers, {}, caller=caller)
            wishes = wishes_in(headers)
            request = wire.parse(body, headers=headers)
            session_name, chain = await self._session_of(caller, context)
            if self._overhear is not None:
                await self._overhear(chain, request.opening)
            return await self.gateway.run(
                request,
                wire,
                session_name=session_name,
                chain=chain,
                context=context,
                outlet=outlet,
                wishes=wishes,
            )
        except InvalidContextError as error:
            return invalid_answer(wire, InvalidRequestError(str(error)))
        except InvalidRequestError as error:
            return invalid_answer(wire, error)
        except UnknownSessionError as error:
            return unknown_session_answer(wire, error)


async def _body(receive: Receive) -> bytes | None:
    """Return the whole body, None where the client left before its end."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        return bytes(message.get("body", b""))
    parts: list[bytes] = []
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()
    return None


def _headers_of(scope: Scope) -> Mapping[str, str]:
    """Return the headers by their names in lower case; of several of one name the first."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in reversed(scope["headers"])
    }


async def _attend(receive: Receive, cancelling: anyio.CancelScope) -> None:
    """Cancel when the client goes away; the channel says so when the answer was sent, too."""
    try:
        while (await receive())["type"] != "http.disconnect":
            """Nothing else is of interest: the body was read."""
    except Exception:
        # One client's connection is no reason to end the watch over the others'.
        logger.exception("a model call can no longer be attended to")
    else:
        cancelling.cancel()
