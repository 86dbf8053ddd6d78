"""Plug-ins that fail: what of it is caught, told and counted, and when one is left alone."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from tool_gateway import telemetry
from tool_gateway.ports import Clock
from tool_gateway.redaction import redact_text

logger = logging.getLogger(__name__)

# A plug-in that wants to end the process ends nothing but its own part.
FAULTS = (Exception, SystemExit)
FAILURES_MAX = 5
REST_MS = 60_000
_WORDS_MAX = 300

Answer = TypeVar("Answer")


class PluginError(Exception):
    """A plug-in did not answer, or answered what cannot be understood."""


class Contained:
    """Asks one plug-in, for so long; one that fails time and again rests for a while."""

    def __init__(self, name: str, *, timeout_ms: int, clock: Clock) -> None:
        """Take its name, and how long it may take."""
        self.name = name
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._failures = 0
        self._rests_until_ms = 0

    @property
    def is_resting(self) -> bool:
        """Tell whether it is better not asked now, where it need not be."""
        return self._clock.elapsed_ms() < self._rests_until_ms

    async def answer(self, asked: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return what it answers.

        Raises:
            PluginError: it fails, or takes too long.
        """
        try:
            with anyio.fail_after(self._timeout_ms / 1000):
                answer = await asked()
        except FAULTS as error:
            is_late = isinstance(error, TimeoutError)
            why = f"no answer within {self._timeout_ms} ms" if is_late else words_of(error)
            self.note_failure(why)
            raise PluginError(why) from error
        self._failures = 0
        return answer

    def note_failure(self, why: str) -> None:
        """Count a failure and tell it, once until it works again."""
        telemetry.count_failure("plugin")
        self._failures += 1
        if self._failures == 1:
            logger.warning("plug-in %s failed: %s", self.name, why)
        if self._failures >= FAILURES_MAX:
            self._rests_until_ms = self._clock.elapsed_ms() + REST_MS
            self._failures = 0


def words_of(error: BaseException) -> str:
    """Return what an error of a stranger's says, without what looks like a secret."""
    said = redact_text(str(error)).strip()
    kind = type(error).__name__
    return f"{kind}: {said}"[:_WORDS_MAX] if said else kind
