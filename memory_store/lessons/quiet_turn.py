"""The turn at quiet work, which sidecars on one PostgreSQL take one after the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
from sqlalchemy import Connection

from memory_store.advisory import Duty, is_free
from memory_store.engine import translated
from memory_store.reader import Reader


class QuietTurn:
    """Says whether this sidecar may work in quiet hours now."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[bool]:
        """Yield whether the turn is this sidecar's until the block ends.

        Whoever has it keeps it in an open transaction, and so loses it with its connection: a
        sidecar that dies keeps nobody waiting. On SQLite there is one sidecar, whose turn it is.

        Raises:
            StoreUnavailableError: the database does not answer.
        """
        if not self._reader.is_shared:
            yield True
            return
        async with self._reader.held() as connection:
            yield await anyio.to_thread.run_sync(_is_free, connection)


def _is_free(connection: Connection) -> bool:
    with translated():
        return is_free(connection, Duty.QUIET_WORK)
