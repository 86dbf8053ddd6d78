"""Requests that wait, without a client connected, for what their upstream asked of it.

A client of the era without sessions is asked by answering its request with the question; it
sends the request again with the answer. An upstream of the older era asks in the middle of a
call that goes on. So that call is parked: it runs on, its hold is kept, and the retry finds it.
"""

import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import mcp_types
from anyio.abc import TaskGroup

from tool_gateway.errors import CallerLimitError, StaleStateError
from tool_gateway.exchange import ANSWER_SECONDS_MAX, AskRefusedError
from tool_gateway.front.exchanges import ClientExchange, Context
from tool_gateway.results import Json
from tool_gateway.telemetry import count_failure

# Then the place, a name of the process that nobody can guess, and one of the request.
STATE_PREFIX = "flyball."
PARKED_MAX = 1_000
PARKED_PER_OWNER_MAX = 32
QUESTION_BYTES_MAX = 256 * 1024
QUESTIONS_MAX = 32
# Cancelled work settles, which is bounded by itself.
END_SECONDS_MAX = 30.0


@dataclass(slots=True)
class _Question:
    method: str
    params: Json
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whose request it is, and what it asks for: a retry is of the same."""

    owner: str
    digest: str


class Parked:
    """One request on its way, which can be parked any number of times."""

    def __init__(self, subject: Subject) -> None:
        """Take what it is about; it does not run yet."""
        self.subject = subject
        self.state = ""  # what its client has to send back, empty while it is connected
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        self.error: Exception | None = None
        self.result: Json | None = None
        self._open: dict[str, _Question] = {}
        self._asked = 0
        self._moved = anyio.Event()

    async def run(self, work: Awaitable[Json]) -> None:
        """Run the work and keep how it ended."""
        try:
            with self.scope:
                self.result = await work
        # A task's top: whoever waits for the outcome gets it, as if it had been awaited.
        except Exception as error:  # noqa: BLE001
            self.error = error
        finally:
            self.ended.set()
            self._moved.set()

    async def ask(self, method: str, params: Json) -> Json:
        """Return the answer that a retry brings.

        Raises:
            AskRefusedError: it did not come in time, or this asks too much.
        """
        if len(str(params)) > QUESTION_BYTES_MAX or len(self._open) >= QUESTIONS_MAX:
            raise AskRefusedError("too much was asked at once", code=mcp_types.INVALID_REQUEST)
        self._asked += 1
        key = f"question-{self._asked}"
        question = self._open[key] = _Question(method, params)
        self._moved.set()
        try:
            with anyio.fail_after(ANSWER_SECONDS_MAX):
                await question.answered.wait()
        except TimeoutError as error:
            message = f"the client did not answer within {ANSWER_SECONDS_MAX} s"
            raise AskRefusedError(message, code=mcp_types.INTERNAL_ERROR) from error
        finally:
            del self._open[key]
        return question.answer

    def refuse(self, why: str) -> None:
        """End the work: its questions can reach nobody."""
        self.error = CallerLimitError(why)
        self.scope.cancel()

    def take(self, answers: Mapping[str, object]) -> None:
        """Hand the answers of a retry to whoever asked; others' are nobody's."""
        for key, answer in answers.items():
            question = self._open.get(key)
            if question is not None and isinstance(answer, Mapping):
                question.answer = answer
                question.answered.set()

    async def questions(self) -> dict[str, object]:
        """Return what is asked and not answered, as soon as there is any; nothing at the end."""
        while True:
            self._moved = anyio.Event()
            waiting = {
                key: {"method": one.method, "params": dict(one.params)}
                for key, one in self._open.items()
                if not one.answered.is_set()
            }
            if self.ended.is_set():
                return {}
            if waiting:
                return dict(waiting)
            await self._moved.wait()


class Parking:
    """Every parked request of this process: bounded in number, in time and for each agent."""

    def __init__(self, *, place: str = "") -> None:
        """Start empty; `open` must be entered before the first request.

        `place` stands in every state, so that a retry finds the way to this process.
        """
        # Of this process alone: another one, or an upstream, has states of its own.
        self._prefix = f"{STATE_PREFIX}{place}.{secrets.token_hex(8)}."
        self._parked: dict[str, tuple[Parked, ClientExchange]] = {}
        self._owners: Counter[str] = Counter()
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Run requests that may be parked while the block runs."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    def owns(self, state: object) -> bool:
        """Tell whether a request's state was made here."""
        return isinstance(state, str) and state.startswith(self._prefix)

    async def serve(
        self,
        subject: Subject,
        exchange_of: Callable[[Parked], ClientExchange],
        work: Callable[[ClientExchange], Awaitable[Json]],
    ) -> Json:
        """Return the result of `work`, or what its upstream asks the client meanwhile."""
        assert self._tasks is not None, "`open` was entered"
        parked = Parked(subject)
        exchange = exchange_of(parked)
        self._tasks.start_soon(self._run, parked, work(exchange))
        return await self._outcome(parked, exchange)

    async def resume(self, ctx: Context, subject: Subject, *, state: str, answers: Json) -> Json:
        """Return the result of a parked request, or what is asked next.

        Raises:
            StaleStateError: there is no such request of this agent's.
        """
        parked, exchange = self._parked.get(state, (None, None))
        if parked is None or exchange is None or parked.subject != subject:
            raise StaleStateError
        self._leave(parked)
        exchange.attach(ctx)
        parked.take(answers)
        return await self._outcome(parked, exchange)

    async def _outcome(self, parked: Parked, exchange: ClientExchange) -> Json:
        try:
            questions = await parked.questions()
            if questions and not self._has_room(parked.subject.owner):
                count_failure("parking")
                parked.refuse("too many requests of this agent wait for answers")
                await parked.ended.wait()
        except BaseException:
            # The client went away: what it asked for ends, and is settled, as if it ran here.
            parked.scope.cancel()
            with anyio.move_on_after(END_SECONDS_MAX, shield=True):
                await parked.ended.wait()
            raise
        if parked.ended.is_set():
            if parked.result is None:
                raise parked.error or CallerLimitError("the request was stopped")
            return parked.result
        exchange.attach(None)
        return {
            "resultType": "input_required",
            "inputRequests": questions,
            "requestState": self._enter(parked, exchange),
        }

    def _has_room(self, owner: str) -> bool:
        return len(self._parked) < PARKED_MAX and self._owners[owner] < PARKED_PER_OWNER_MAX

    def _enter(self, parked: Parked, exchange: ClientExchange) -> str:
        parked.state = self._prefix + secrets.token_urlsafe(32)
        self._parked[parked.state] = (parked, exchange)
        self._owners[parked.subject.owner] += 1
        return parked.state

    def _leave(self, parked: Parked) -> None:
        del self._parked[parked.state]
        parked.state = ""
        self._owners[parked.subject.owner] -= 1
        if not self._owners[parked.subject.owner]:
            del self._owners[parked.subject.owner]

    async def _run(self, parked: Parked, work: Awaitable[Json]) -> None:
        try:
            await parked.run(work)
        finally:
            # One that ended without its client is forgotten: the answer came too late.
            if parked.state:
                self._leave(parked)
