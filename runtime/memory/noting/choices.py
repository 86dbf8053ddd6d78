"""What memory chose by itself, kept beside the answer: nobody waits for that."""

import json
import logging
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import numpy as np

from governor.learning.bandit import Vector
from memory_store.errors import StoreError
from memory_store.memory_choices import MemoryChoice
from runtime.memory.noting.flushing import flushing
from tool_gateway.telemetry import count_failure

logger = logging.getLogger(__name__)

_NOTES_MAX = 10_000
_BATCH_MAX = 200


class Log(Protocol):
    """Where choices are kept."""

    async def record(self, choices: tuple[MemoryChoice, ...]) -> None:
        """Keep choices; one that is here already stays as it is."""
        ...


class ChoiceNotes:
    """Collects choices and writes them together; where too many wait, the oldest are lost."""

    def __init__(self, log: Log) -> None:
        """Take where choices are kept."""
        self._log = log
        self._waiting: deque[MemoryChoice] = deque(maxlen=_NOTES_MAX)

    def note(self, choice: MemoryChoice) -> None:
        """Keep a choice for later."""
        if len(self._waiting) == _NOTES_MAX:
            count_failure("memory choices")
        self._waiting.append(choice)

    async def flush(self) -> None:
        """Write what was noted; what the store does not take is lost, and counted."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(_BATCH_MAX, len(self._waiting)))]
            try:
                await self._log.record(tuple(batch))
            except StoreError as error:
                count_failure("memory choices")
                logger.warning("%d choices of the memory were not kept: %s", len(batch), error)

    def kept(self) -> AbstractAsyncContextManager[None]:
        """Write what is noted now and then while the block runs, and at its end."""
        return flushing(self.flush)


def options_text(chances: Mapping[str, float], costs: Mapping[str, float]) -> str:
    """Return how probable each option was, and what it was expected to cost, for the log."""
    return json.dumps(
        {
            name: [round(chance, 6), round(costs.get(name, 0.0), 2)]
            for name, chance in chances.items()
        }
    )


def options_of(text: str) -> dict[str, tuple[float, float]]:
    """Return what `options_text` wrote: for each option its chance and its cost."""
    found = json.loads(text)
    return {str(name): (float(chance), float(cost)) for name, (chance, cost) in found.items()}


def numbers_bytes(numbers: Vector) -> bytes:
    """Return numbers as the log keeps them."""
    return numbers.astype("<f8").tobytes()


def numbers_of(content: bytes) -> Vector:
    """Return what `numbers_bytes` wrote."""
    return np.frombuffer(content, "<f8").astype(np.float64)
