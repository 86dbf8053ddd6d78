"""Methods of clients, made of the requests that they send: said once, for both kinds of client.

A method takes what the function takes that makes its request, and has its words.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from runtime.client.connection import AsyncConnection, Connection
from runtime.client.exchange import AnswerT, Asked, Listing, SaidT

P = ParamSpec("P")
_MethodT = TypeVar("_MethodT", bound=Callable[..., object])
_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)


class Waiting(Protocol):
    """A client for programs that wait."""

    _connection: Connection


class Awaiting(Protocol):
    """A client for programs with a loop."""

    _connection: AsyncConnection


def waits(ask: Callable[P, Asked[SaidT]]) -> Callable[Concatenate[Waiting, P], SaidT]:
    """Return the method that waits for what is answered to a request."""

    def method(self: Waiting, /, *args: P.args, **kwargs: P.kwargs) -> SaidT:
        return self._connection.answer(ask(*args, **kwargs))

    return _as_said(ask, method)


def awaits(
    ask: Callable[P, Asked[SaidT]],
) -> Callable[Concatenate[Awaiting, P], Coroutine[Any, Any, SaidT]]:
    """Return the method that awaits what is answered to a request."""

    async def method(self: Awaiting, /, *args: P.args, **kwargs: P.kwargs) -> SaidT:
        return await self._connection.answer(ask(*args, **kwargs))

    return _as_said(ask, method)


def waits_in_session(
    ask: Callable[Concatenate[str | None, P], Asked[SaidT]],
) -> Callable[Concatenate[Waiting, P], SaidT]:
    """Return what `waits` does for a request that is told which session the client's own is."""

    def method(self: Waiting, /, *args: P.args, **kwargs: P.kwargs) -> SaidT:
        return self._connection.answer(ask(self._connection.session, *args, **kwargs))

    return _as_said(ask, method, told=1)


def awaits_in_session(
    ask: Callable[Concatenate[str | None, P], Asked[SaidT]],
) -> Callable[Concatenate[Awaiting, P], Coroutine[Any, Any, SaidT]]:
    """Return what `awaits` does for a request that is told which session the client's own is."""

    async def method(self: Awaiting, /, *args: P.args, **kwargs: P.kwargs) -> SaidT:
        return await self._connection.answer(ask(self._connection.session, *args, **kwargs))

    return _as_said(ask, method, told=1)


def pages(
    ask: Callable[P, Listing[AnswerT]],
) -> Callable[Concatenate[Waiting, P], Iterator[AnswerT]]:
    """Return the method that yields what a listing has, and waits for each page of it."""

    def method(self: Waiting, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[AnswerT]:
        return self._connection.items(ask(*args, **kwargs))

    return _as_said(ask, method)


def awaits_pages(
    ask: Callable[P, Listing[AnswerT]],
) -> Callable[Concatenate[Awaiting, P], AsyncIterator[AnswerT]]:
    """Return the method that yields what a listing has, and awaits each page of it."""

    def method(self: Awaiting, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[AnswerT]:
        return self._connection.items(ask(*args, **kwargs))

    return _as_said(ask, method)


def _as_said(ask: Callable[..., object], method: _MethodT, *, told: int = 0) -> _MethodT:
    """Return a method that says of itself what `ask` does, but for what `ask` is `told`."""
    said = inspect.signature(ask)
    taken = [_SELF, *list(said.parameters.values())[told:]]
    method.__name__ = method.__qualname__ = ask.__name__
    method.__doc__ = ask.__doc__
    vars(method)["__signature__"] = said.replace(
        parameters=taken, return_annotation=inspect.Signature.empty
    )
    return method
