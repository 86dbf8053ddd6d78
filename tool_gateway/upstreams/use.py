"""Who uses an upstream now, so that one that is replaced can end when nobody does."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Use:
    """Counts requests that are under way."""

    def __init__(self) -> None:
        """Begin with none."""
        self._count = 0
        self._ended = anyio.Event()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Count a request in while the block runs."""
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._ended.set()
                self._ended = anyio.Event()

    async def ended(self) -> None:
        """Wait until no request is under way."""
        if self._count:
            await self._ended.wait()
