"""The attempts at one request: each in what is left of its time, the next only where it is safe."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

import anyio

from governor.retrying import RetryTerms, Sent, pause_before_retry
from tool_gateway import telemetry
from tool_gateway.errors import (
    UpstreamError,
    UpstreamLostError,
    UpstreamNotReachedError,
    UpstreamRefusedError,
)
from tool_gateway.exchange import Patience
from tool_gateway.results import Json

Below = Callable[[int], int]

_DETAIL_CHARS_MAX = 500


def half_of(bound: int) -> int:
    """Return the middle of what could be drawn: the pauses of whoever needs none to be random."""
    return bound // 2


class Attempts:
    """How a request has gone so far; one hold covers all attempts at it."""

    def __init__(
        self,
        upstream: str,
        terms: RetryTerms,
        *,
        wall_ms: int,
        answer_ms_max: int,
        is_repeatable: bool,
        below: Below,
    ) -> None:
        """Take the time for all attempts together, and for one of them."""
        self._upstream = upstream
        self._terms = terms
        self._wall_ms = wall_ms
        self._answer_ms_max = answer_ms_max
        self._is_repeatable = is_repeatable
        self._below = below
        self._began = anyio.current_time()
        self.limit_ms = min(wall_ms, answer_ms_max)  # of the attempt that was made last
        self._was_sent = False
        self._failures: list[str] = []
        self.asked_s = 0.0

    @property
    def number(self) -> int:
        """Return how many attempts were made, the present one included."""
        return len(self._failures) + 1

    @property
    def detail(self) -> str:
        """Return what is worth knowing of the attempts; nothing of a single one."""
        if not self._failures:
            return ""
        return f"attempt {self.number}; before: {'; '.join(self._failures)}"[:_DETAIL_CHARS_MAX]

    async def run(self, send: Callable[[Patience], Awaitable[Json]]) -> Json:
        """Return the answer of the first attempt that has one.

        Raises:
            TimeoutError: the last attempt took too long.
            UpstreamNotReachedError: nothing of any attempt was sent.
            UpstreamFailedError: the last attempt failed.
        """
        while True:
            self.limit_ms = min(self._left_ms, self._answer_ms_max)
            patience = Patience(self.limit_ms)
            try:
                return await send(patience)
            except (UpstreamError, TimeoutError) as error:
                failure = error
            finally:
                self.asked_s += patience.asked_s
            await self._pause_after(failure)

    async def _pause_after(self, error: Exception) -> None:
        """Return when it is time for the next attempt; raise what all come to if there is none."""
        sent = self.sent_by(error)
        pause_ms = (
            None
            if _is_settled(error)
            else pause_before_retry(
                self._terms,
                attempts=self.number,
                sent=sent,
                # Whoever was asked something would be asked it again.
                is_repeatable=self._is_repeatable and not self.asked_s,
                left_ms=self._left_ms,
                below=self._below,
            )
        )
        if pause_ms is None:
            self._raise(error)
        self._was_sent = self._was_sent or sent is not Sent.NOTHING
        self._failures.append(str(error) or f"no answer within {self.limit_ms} ms")
        telemetry.count_retry(upstream=self._upstream, after=sent.value)
        await anyio.sleep(pause_ms / 1000)

    @property
    def _left_ms(self) -> int:
        worked_s = anyio.current_time() - self._began - self.asked_s
        return max(0, self._wall_ms - round(worked_s * 1000))

    @staticmethod
    def sent_by(error: Exception) -> Sent:
        """Return what an attempt that ended with `error` may have done."""
        match error:
            case UpstreamNotReachedError():
                return Sent.NOTHING
            case UpstreamLostError() | TimeoutError():
                return Sent.UNKNOWN
            case _:
                return Sent.ANSWERED

    def _raise(self, error: Exception) -> NoReturn:
        """Raise what the attempts come to: where one was sent, the call was."""
        if isinstance(error, UpstreamNotReachedError) and self._was_sent:
            message = f"{error}; an earlier attempt was sent ({self._failures[-1]})"
            raise UpstreamLostError(message) from error
        raise error


def _is_settled(error: Exception) -> bool:
    """Tell whether asking again soon changes nothing, though nothing was sent.

    A server that is not there was waited for; one that refuses a connection may be there again.
    """
    is_refused = isinstance(error, UpstreamRefusedError)
    return isinstance(error, UpstreamNotReachedError) and not is_refused
