"""The store's sketches of work as where the gateway keeps what it learned."""

from collections.abc import Mapping

from governor.expectation import Known, Work
from memory_store.works import WorkBook
from runtime.ledger_words import ledger_words


class StoreWorks:
    """The store's sketches as where the gateway keeps what it learned."""

    def __init__(self, book: WorkBook) -> None:
        """Take the book."""
        self._book = book

    async def all(self) -> Mapping[Work, Known]:
        """Return what is known."""
        with ledger_words():
            return dict(await self._book.all())

    async def add(self, learned: Mapping[Work, Known], *, now_ms: int) -> None:
        """Add what was learned to what is known."""
        with ledger_words():
            await self._book.add(tuple(learned.items()), now_ms=now_ms)
