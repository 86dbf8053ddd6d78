"""Keeps the log of the router beside the calls: a bounded queue, written in batches.

Recording fails open: an answer never waits for it, what does not fit is dropped, and each loss is
counted.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

import anyio

from memory_store.errors import StoreError
from memory_store.router_log import RouterDecision, RouterEnd, TurnSign
from tool_gateway import telemetry

logger = logging.getLogger(__name__)

WAITING_MAX = 4_096
BATCH_MAX = 256
EVERY_SECONDS = 0.5
AT_THE_END_SECONDS_MAX = 2.0
_PART = "router_log"


class Log(Protocol):
    """Where it is kept."""

    async def record(
        self,
        decisions: tuple[RouterDecision, ...],
        ends: tuple[RouterEnd, ...],
        signs: tuple[TurnSign, ...],
    ) -> None:
        """Keep choices, ends and signs."""


class Recorder:
    """Takes what is to be kept at once, and keeps it a little later."""

    def __init__(self, log: Log, *, signs: Callable[[], tuple[TurnSign, ...]]) -> None:
        """Take where it is kept, and who says what the tools told meanwhile."""
        self._log = log
        self._signs = signs
        self._decisions: deque[RouterDecision] = deque()
        self._ends: deque[RouterEnd] = deque()
        self._is_away = False
        self._writing = anyio.Lock()

    def decided(self, decision: RouterDecision) -> None:
        """Take a choice."""
        self._put(self._decisions, decision)

    def ended(self, end: RouterEnd) -> None:
        """Take how a call ended."""
        self._put(self._ends, end)

    def _put(self, queue: deque[RouterDecision] | deque[RouterEnd], item: object) -> None:
        if len(queue) >= WAITING_MAX:
            queue.popleft()
            telemetry.count_failure(_PART)
        queue.append(item)  # type: ignore[arg-type]  # each queue is given its own kind

    async def flush(self) -> None:
        """Keep what waits; while the store is away it goes on waiting, as much as there is room."""
        async with self._writing:
            signs = self._signs()
            while self._decisions or self._ends or signs:
                decisions, ends = tuple(self._decisions)[:BATCH_MAX], tuple(self._ends)[:BATCH_MAX]
                try:
                    await self._log.record(decisions, ends, signs)
                except StoreError as error:
                    telemetry.count_failure(_PART)
                    if not self._is_away:
                        logger.warning("what the router chose cannot be kept now: %s", error)
                    self._is_away = True
                    return
                self._is_away = False
                signs = ()
                _drop(self._decisions, decisions)
                _drop(self._ends, ends)

    async def keep_for_ever(self) -> None:
        """Keep what comes until cancelled, and then what is left."""
        try:
            while True:
                await anyio.sleep(EVERY_SECONDS)
                await self._tried()
        finally:
            with anyio.move_on_after(AT_THE_END_SECONDS_MAX, shield=True):
                await self._tried()

    async def _tried(self) -> None:
        try:
            await self.flush()
        except Exception:
            # The top of a task: what left it would end the sidecar.
            telemetry.count_failure(_PART)
            logger.exception("what the router chose could not be kept; it is dropped")
            self._decisions.clear()
            self._ends.clear()


def _drop(queue: deque[RouterDecision] | deque[RouterEnd], kept: tuple[object, ...]) -> None:
    """Remove from the front what was kept; while it was written, room may have been made."""
    for item in kept:
        if queue and queue[0] is item:
            queue.popleft()
