"""What is noted beside the answers, written now and then."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

FLUSH_SECONDS = 1.0


@asynccontextmanager
async def flushing(flush: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Write what was noted now and then while the block runs, and at its end."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_for_ever, flush)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()
            with anyio.move_on_after(FLUSH_SECONDS, shield=True):
                await flush()


async def _for_ever(flush: Callable[[], Awaitable[None]]) -> None:
    while True:
        await anyio.sleep(FLUSH_SECONDS)
        await flush()
