"""Reads: consistent snapshots taken in worker threads, beside the writer."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import anyio
import anyio.to_thread
import psycopg
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from memory_store.engine import READERS_MAX, translated
from memory_store.errors import StoreUnavailableError

# Of a whole transaction's snapshot a server would have to keep what was removed since.
_HOLDS_NOTHING = text("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")

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
        self._refuse_closing()

        def read() -> T:
            with translated(), self._engine.begin() as connection:
                return work(connection)

        return await anyio.to_thread.run_sync(read, limiter=self._slots)

    @property
    def is_shared(self) -> bool:
        """Tell whether other sidecars may be at work on the same database."""
        return self._engine.dialect.name == "postgresql"

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Connection]:
        """Yield a connection in a transaction of its own until the block ends.

        It counts as one of the few. Nothing that it has read is held: what lasts for minutes
        must not keep the database from cleaning up behind it.

        Raises:
            StoreUnavailableError: the database refused or failed, or the store is closing.
        """
        self._refuse_closing()
        # Not in the name of the task: it reads, too, while it holds this.
        holder = object()
        await self._slots.acquire_on_behalf_of(holder)
        try:
            connection = await anyio.to_thread.run_sync(self._begun)
            try:
                yield connection
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(_let_go, connection)
        finally:
            self._slots.release_on_behalf_of(holder)

    async def close(self) -> None:
        """Refuse further reads and return when those that run are done."""
        self._is_closing = True
        for _ in range(READERS_MAX):
            await self._slots.acquire_on_behalf_of(object())

    def _begun(self) -> Connection:
        with translated():
            connection = self._engine.connect()
            try:
                connection.execute(_HOLDS_NOTHING)
            except BaseException:
                connection.close()
                raise
            return connection

    def _refuse_closing(self) -> None:
        if self._is_closing:
            message = "the store is closing"
            raise StoreUnavailableError(message)


def _let_go(connection: Connection) -> None:
    """Give a connection back; one that was lost has nothing left to end."""
    with suppress(SQLAlchemyError, psycopg.Error):
        connection.rollback()
    with suppress(SQLAlchemyError, psycopg.Error):
        connection.close()
