"""Reads: consistent snapshots taken in worker threads, beside the writer."""

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import Connection, Engine

from memory_store.engine import READERS_MAX, translated
from memory_store.errors import StoreUnavailableError

T = TypeVar("T")


class Reader:
    """Runs functions on a read-only connection, a few at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._slots = anyio.CapacityLimiter(READERS_MAX)
        self._is_closing = False

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` reads, all of it as of one instant.

        Raises:
            StoreUnavailableError: the database refused or failed, or the store is closing.
        """
        if self._is_closing:
            message = "the store is closing"
            raise StoreUnavailableError(message)

        def read() -> T:
            with translated(), self._engine.begin() as connection:
                return work(connection)

        return await anyio.to_thread.run_sync(read, limiter=self._slots)

    async def close(self) -> None:
        """Refuse further reads and return when those that run are done."""
        self._is_closing = True
        for _ in range(READERS_MAX):
            await self._slots.acquire_on_behalf_of(object())
