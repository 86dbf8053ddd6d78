"""What an upstream asks and tells in the middle of a call, brought to the client that caused it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import anyio
import mcp_types
from mcp.client.session import ClientRequestContext
from pydantic import BaseModel, TypeAdapter, ValidationError

from tool_gateway.exchange import PATIENCE_MS_MAX, AskRefusedError, Exchange, Patience
from tool_gateway.results import Json

_NOBODY_KNOWN = (
    "nobody knows which client caused this: not exactly one call is in flight over this "
    'connection. The operator can set share = "session" for this upstream'
)
_Sampled = TypeAdapter[mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools](
    mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools
)


@dataclass(eq=False, slots=True, frozen=True, kw_only=True)
class Serving:
    """One request that an upstream works on, for whom, and how long it still may."""

    exchange: Exchange
    patience: Patience


# The request in whose task something is sent. The SDK carries the context of whoever sends a
# message along to the tasks that read its response stream, so what an HTTP upstream says on
# that stream is heard in the same context.
_CAUSE: ContextVar[Serving | None] = ContextVar("cause", default=None)


def cause_of_sending() -> Serving | None:
    """Return the request for which the running task sends, None outside of any."""
    return _CAUSE.get()


@dataclass(eq=False, slots=True)
class Questions:
    """The callbacks of one connection."""

    _in_flight: set[Serving] = field(default_factory=set)
    used_at: float = field(default_factory=anyio.current_time)

    @contextmanager
    def serving(self, serving: Serving) -> Iterator[None]:
        """Take what the upstream says during the block as being about `serving`."""
        self._in_flight.add(serving)
        token = _CAUSE.set(serving)
        try:
            yield
        finally:
            _CAUSE.reset(token)
            self._in_flight.discard(serving)
            self.used_at = anyio.current_time()

    @property
    def is_busy(self) -> bool:
        """Tell whether a request is in flight."""
        return bool(self._in_flight)

    @property
    def cause(self) -> Serving | None:
        """Return the request that the message at hand belongs to, None if nobody can know.

        A connection that carries every message on one stream tells only while a single
        request is in flight.
        """
        known = _CAUSE.get()
        if known in self._in_flight:
            return known
        return next(iter(self._in_flight)) if len(self._in_flight) == 1 else None

    async def elicitation(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Return what the person at the client filled in."""
        answer = await self._answer("elicitation/create", params)
        if isinstance(answer, mcp_types.ErrorData):
            return answer
        try:
            return mcp_types.ElicitResult.model_validate(answer)
        except ValidationError:
            return _nonsense("elicitation/create")

    async def sampling(
        self, context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> (
        mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools | mcp_types.ErrorData
    ):
        """Return what the client's model said."""
        answer = await self._answer("sampling/createMessage", params)
        if isinstance(answer, mcp_types.ErrorData):
            return answer
        try:
            return _Sampled.validate_python(answer)
        except ValidationError:
            return _nonsense("sampling/createMessage")

    async def roots(
        self, context: ClientRequestContext
    ) -> mcp_types.ListRootsResult | mcp_types.ErrorData:
        """Return the client's roots."""
        answer = await self._answer("roots/list", None)
        if isinstance(answer, mcp_types.ErrorData):
            return answer
        try:
            return mcp_types.ListRootsResult.model_validate(answer)
        except ValidationError:
            return _nonsense("roots/list")

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Hand a log message on to the client that caused it; nobody else may read it."""
        if (cause := self.cause) is not None:
            await cause.exchange.notify("notifications/message", _wire(params))

    async def elicited(self, params: mcp_types.ElicitCompleteNotificationParams) -> None:
        """Tell the client that what a person was asked to do elsewhere is done."""
        if (cause := self.cause) is not None:
            await cause.exchange.notify("notifications/elicitation/complete", _wire(params))

    async def _answer(self, method: str, params: BaseModel | None) -> Json | mcp_types.ErrorData:
        cause = self.cause
        if cause is None:
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=_NOBODY_KNOWN)
        try:
            return await asked(cause, method, {} if params is None else _wire(params))
        except AskRefusedError as error:
            return mcp_types.ErrorData(code=error.code, message=str(error), data=error.data)


async def asked(serving: Serving, method: str, params: Json) -> Json:
    """Return the client's answer to a question that it said it can be asked.

    Raises:
        AskRefusedError: it cannot be asked this, refuses, or takes too long.
    """
    if not serving.exchange.wishes.can_answer(method, str(params.get("mode", "form"))):
        message = f"the client does not support {method}"
        raise AskRefusedError(message, code=mcp_types.INVALID_REQUEST)
    left_s = PATIENCE_MS_MAX / 1000 - serving.patience.asked_s
    try:
        with serving.patience.asking(), anyio.fail_after(max(0.0, left_s)):
            return await serving.exchange.ask(method, params)
    except TimeoutError as error:
        message = "the client was asked for too long"
        raise AskRefusedError(message, code=mcp_types.INTERNAL_ERROR) from error


def _wire(params: BaseModel) -> dict[str, object]:
    return params.model_dump(mode="json", by_alias=True, exclude_none=True)


def _nonsense(method: str) -> mcp_types.ErrorData:
    return mcp_types.ErrorData(
        code=mcp_types.INTERNAL_ERROR, message=f"the client's answer to {method} has another shape"
    )
