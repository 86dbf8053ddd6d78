"""Turns at an upstream for lists, which no budget and no turnstile stands before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from governor.ids import UpstreamName
from tool_gateway.errors import UpstreamNotReachedError
from tool_gateway.telemetry import count_shed

AT_ONCE_MAX = 16
WAITING_MAX = 256
WAIT_SECONDS_MAX = 10.0


class ListTurns:
    """Lets only so many lists of an upstream be asked for at once, and only so many wait."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._limiters: dict[UpstreamName, anyio.CapacityLimiter] = {}

    @asynccontextmanager
    async def turn(self, upstream: UpstreamName) -> AsyncIterator[None]:
        """Wait for a turn and keep it during the block.

        Raises:
            UpstreamNotReachedError: too many wait already, or it takes too long.
        """
        limiter = self._limiters.get(upstream)
        if limiter is None:
            limiter = self._limiters[upstream] = anyio.CapacityLimiter(AT_ONCE_MAX)
        if limiter.statistics().tasks_waiting >= WAITING_MAX:
            raise self._refused(upstream)
        borrower = object()  # one task may have several lists under way
        with anyio.move_on_after(WAIT_SECONDS_MAX) as waiting:
            await limiter.acquire_on_behalf_of(borrower)
        if waiting.cancelled_caught:
            raise self._refused(upstream)
        try:
            yield
        finally:
            limiter.release_on_behalf_of(borrower)

    def forget(self, upstream: UpstreamName) -> None:
        """Let an upstream that is there no more take no place."""
        self._limiters.pop(upstream, None)

    @staticmethod
    def _refused(upstream: UpstreamName) -> UpstreamNotReachedError:
        count_shed(backend=upstream, reason="lists")
        return UpstreamNotReachedError(f"too many lists of {upstream} are asked for at once")
