"""Which price list is in force: what an administrator put last, else the file's."""

from dataclasses import dataclass
from enum import StrEnum

from governor.pricing import PriceList
from memory_store.audit import Actor
from memory_store.prices import PriceBook, PutPrices


class PriceOrigin(StrEnum):
    """Where a price list is from."""

    FILE = "file"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesInForce:
    """The list in force; `revision` counts how often one was put."""

    prices: PriceList
    origin: PriceOrigin
    revision: int
    put_at_ms: int | None
    put_by: str | None

    @property
    def version(self) -> str:
        """Return the short name of exactly this list, as records of calls name it."""
        return self.prices.version


class PriceSource:
    """Answers at each call which prices are in force; the list of the file is the fallback."""

    def __init__(self, book: PriceBook, *, of_file: PriceList) -> None:
        """Take what administrators put, and what the file says."""
        self._book = book
        self._of_file = of_file

    def prices(self) -> PriceList:
        """Return the list that the next call is charged by."""
        put = self._book.latest.prices
        return self._of_file if put is None else put

    async def refresh(self) -> PricesInForce:
        """Return what is in force, whichever sidecar put it, and go by it from now on.

        Raises:
            StoreError: it cannot be read; what was in force still is.
        """
        return self._in_force(await self._book.read())

    async def version(self, version: str) -> PricesInForce:
        """Return a list that is or was in force.

        Raises:
            NotFoundError: none of this version was put, nor is it the file's.
        """
        if version == self._of_file.version:
            return self._from_file(revision=self._book.latest.revision)
        return self._in_force(await self._book.get(version))

    async def put(
        self, prices: PriceList | None, *, over: PricesInForce, by: Actor, now_ms: int
    ) -> PricesInForce:
        """Put `prices` in force in place of `over`; None puts the file's in force again.

        Raises:
            VersionConflictError: something else was put since `over`.
        """
        put = await self._book.put(
            prices,
            of_file=self._of_file,
            expected_revision=over.revision,
            by=by,
            now_ms=now_ms,
        )
        return self._in_force(put)

    def _in_force(self, put: PutPrices) -> PricesInForce:
        if put.prices is None:
            return self._from_file(revision=put.revision)
        return PricesInForce(
            prices=put.prices,
            origin=PriceOrigin.ADMIN,
            revision=put.revision,
            put_at_ms=put.put_at_ms,
            put_by=put.put_by,
        )

    def _from_file(self, *, revision: int) -> PricesInForce:
        return PricesInForce(
            prices=self._of_file,
            origin=PriceOrigin.FILE,
            revision=revision,
            put_at_ms=None,
            put_by=None,
        )
