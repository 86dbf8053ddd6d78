"""A client request that is being served, and how its client can be reached meanwhile.

The fronts make exchanges, each for the protocol era that its client speaks; the upstream legs
use them. What lies between hands them on and knows nothing of either protocol.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from governor.ids import SessionId
from tool_gateway.bearer import Bearer
from tool_gateway.results import Json

# What a server may ask of a client, with the capability that the client must have declared.
QUESTIONS: Mapping[str, str] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
# How long a client, or the person at it, may take for one answer.
ANSWER_SECONDS_MAX = 300
# A call may be asked about this long altogether before its hold would expire under it.
PATIENCE_MS_MAX = 600_000


class AskRefusedError(Exception):
    """The client was not asked, or did not answer; `code` and `data` are as the wire has them."""

    def __init__(self, message: str, *, code: int, data: object = None) -> None:
        """Take what the server that asked is told."""
        super().__init__(message)
        self.code = code
        self.data = data


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a request says beside its subject.

    `capabilities` are what its client declared. `meta` is its `_meta` without what belongs to
    one leg alone. `extras` are the parameters that only the server understands. A client that
    `retries_itself` takes a server's question as the answer to its request and sends the
    request again with what was asked for. `bearer` is the client's own token, for the upstreams
    that are sent it or what it is exchanged for.
    """

    capabilities: Json
    meta: Json
    extras: Json
    retries_itself: bool = False
    has_progress: bool = False
    bearer: Bearer | None = field(default=None, repr=False)

    def can_answer(self, method: str, mode: str = "form") -> bool:
        """Tell whether the client said that it answers this kind of question.

        A form is answered by whoever elicits at all; a visit to a page must be declared.
        """
        declared = self.capabilities.get(QUESTIONS.get(method, ""))
        if not isinstance(declared, Mapping):
            return False
        if method != "elicitation/create" or not declared:
            return mode == "form"
        return mode in declared

    @property
    def can_be_asked(self) -> bool:
        """Tell whether the client answers any question at all."""
        return any(map(self.can_answer, QUESTIONS))


NOTHING_WISHED = Wishes(capabilities={}, meta={}, extras={})


class Exchange(Protocol):
    """One request of a client while it is served; its end, or its cancellation, ends it."""

    @property
    def session(self) -> SessionId | None:
        """Return the session that the request is charged to, None where nobody is charged."""
        ...

    @property
    def wishes(self) -> Wishes:
        """Return what the request says beside its subject."""
        ...

    async def notify(self, method: str, params: Json) -> None:
        """Tell the client something; a client that has gone is told nothing."""
        ...

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell the client how far its request is, if it wants to know."""
        ...

    async def ask(self, method: str, params: Json) -> Json:
        """Return the client's answer to a question of the server's.

        Raises:
            AskRefusedError: the client cannot be asked, refuses, or takes too long.
        """
        ...


class Nobody:
    """The exchange of what the house asks for itself: nobody waits, nobody can be asked."""

    session: SessionId | None = None
    wishes = NOTHING_WISHED

    async def notify(self, method: str, params: Json) -> None:
        """Tell nobody."""

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell nobody."""

    async def ask(self, method: str, params: Json) -> Json:
        """Refuse.

        Raises:
            AskRefusedError: always.
        """
        raise AskRefusedError(f"{method}: no client caused this", code=-32_600)


NOBODY = Nobody()


class Patience:
    """A time limit that stands still while a client is asked: people are slower than servers."""

    def __init__(self, wall_ms: int) -> None:
        """Take how long the server itself may work, from now on."""
        self.ends_at = anyio.current_time() + wall_ms / 1000
        self._left_s = 0.0
        self._scope = anyio.CancelScope()
        self._asking = 0
        self._began = 0.0
        self.asked_s = 0.0

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Limit what the block takes, without the time of questions.

        What was waited for before it, such as the start of a server, has used up its part.

        Raises:
            TimeoutError: it took longer.
        """
        self._scope.deadline = self.ends_at
        with self._scope:
            yield
        if self._scope.cancelled_caught:
            raise TimeoutError

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Let the limit stand still during the block; blocks may overlap."""
        if self._asking == 0:
            self._began = anyio.current_time()
            self._left_s = self._scope.deadline - self._began
            self._scope.deadline = float("inf")
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if self._asking == 0:
                now = anyio.current_time()
                self.asked_s += now - self._began
                self._scope.deadline = now + self._left_s
