"""Who was given which experiences, kept beside the answer: nobody waits for that."""

import logging
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from governor.ids import TenantId
from memory_store.errors import StoreError
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.values import UseNote
from runtime.memory.noting.flushing import flushing
from tool_gateway.telemetry import count_failure

logger = logging.getLogger(__name__)

_NOTES_MAX = 10_000
_BATCH_MAX = 500


class UseNotes:
    """Collects notes and writes them together; where too many wait, the oldest are lost."""

    def __init__(self, book: ExperienceBook) -> None:
        """Take where notes are kept."""
        self._book = book
        self._waiting: deque[tuple[TenantId, UseNote]] = deque(maxlen=_NOTES_MAX)

    def note(self, tenant: TenantId, notes: Sequence[UseNote]) -> None:
        """Keep notes for later."""
        if len(self._waiting) + len(notes) > _NOTES_MAX:
            count_failure("memory uses")
        self._waiting.extend((tenant, note) for note in notes)

    async def flush(self) -> None:
        """Write what was noted; what the store does not take is lost, and counted."""
        while self._waiting:
            tenant = self._waiting[0][0]
            batch: list[UseNote] = []
            while self._waiting and self._waiting[0][0] == tenant and len(batch) < _BATCH_MAX:
                batch.append(self._waiting.popleft()[1])
            try:
                await self._book.note_use(tuple(batch), tenant=tenant)
            except StoreError as error:
                count_failure("memory uses")
                logger.warning("%d uses of experiences were not kept: %s", len(batch), error)

    def kept(self) -> AbstractAsyncContextManager[None]:
        """Write what is noted now and then while the block runs, and at its end."""
        return flushing(self.flush)
