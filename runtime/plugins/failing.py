"""Plug-ins that fail: what of it is caught, told and counted, and when one is left alone."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio

from runtime.strangers import NotEndingError, apart
from tool_gateway import telemetry
from tool_gateway.ports import Clock
from tool_gateway.redaction import redact_text

logger = logging.getLogger(__name__)

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
            with anyio.move_on_after(self._timeout_ms / 1000):
                answer = await contained(self.name, asked)
                self._failures = 0
                return answer
        except PluginError as error:
            self.note_failure(str(error))
            raise
        why = f"no answer within {self._timeout_ms} ms"
        self.note_failure(why)
        raise PluginError(why)

    def note_failure(self, why: str) -> None:
        """Count a failure and tell it, once until it works again."""
        telemetry.count_failure("plugin")
        self._failures += 1
        if self._failures == 1:
            logger.warning("plug-in %s failed: %s", self.name, why)
        if self._failures >= FAILURES_MAX:
            self._rests_until_ms = self._clock.elapsed_ms() + REST_MS
            self._failures = 0


async def contained(name: str, asked: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return what a plug-in answers, in a task that nobody waits for beyond its end.

    Raises:
        PluginError: whatever it raised; or too many of its calls do not end.
    """

    async def answered() -> Answer:
        with faults_contained():
            return await asked()

    try:
        return await apart(f"plug-in {name}", answered)
    except NotEndingError as error:
        raise PluginError(str(error)) from error


@contextmanager
def faults_contained() -> Iterator[None]:
    """Run what a stranger wrote; one that wants to end the process ends its own part only.

    Raises:
        PluginError: whatever it raised, except that this task is being cancelled.
    """
    cancelled = _times_cancelled()
    try:
        yield
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _times_cancelled() > cancelled:
            raise
        raise PluginError(words_of(error)) from error


def _times_cancelled() -> int:
    """Return how often this task was told to end: a stranger can raise the same by itself."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return 0 if task is None else task.cancelling()


def words_of(error: BaseException) -> str:
    """Return what an error of a stranger's says, without what looks like a secret."""
    said = redact_text(text_of(error)).strip()
    kind = type(error).__name__
    return f"{kind}: {said}"[:_WORDS_MAX] if said else kind


def text_of(stranger: object) -> str:
    """Return something in words; empty where it cannot even say those."""
    try:
        return str(stranger)
    except Exception:  # noqa: BLE001 - a stranger's own words raise anything
        return ""
