"""Price lists that administrators put: the latest is in force, all of them stay."""

import json
import threading
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select

from governor.errors import InvalidPriceError
from governor.pricing import ListedPrice, ModelPrice, PriceList
from memory_store.advisory import Duty, in_turn
from memory_store.audit import Actor, note
from memory_store.errors import NotFoundError, StoreUnavailableError
from memory_store.reader import Reader
from memory_store.rows import json_of
from memory_store.tables import price_lists
from memory_store.versions import check_version
from memory_store.writer import Writer

_TARGET = "prices"


@dataclass(frozen=True, slots=True, kw_only=True)
class PutPrices:
    """What an administrator put last; `prices` is None where that was: go by the file again."""

    revision: int
    prices: PriceList | None
    put_at_ms: int
    put_by: str


NEVER_PUT = PutPrices(revision=0, prices=None, put_at_ms=0, put_by="")


class PriceBook:
    """Keeps price lists, and knows the latest without asking the database."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader
        self._latest = NEVER_PUT
        # The writer's thread learns what it stored, the loop's what it read.
        self._learning = threading.Lock()

    @property
    def latest(self) -> PutPrices:
        """Return what was put last, as far as this sidecar knows."""
        return self._latest

    async def read(self) -> PutPrices:
        """Return what was put last, by whichever sidecar.

        Raises:
            StoreUnavailableError: it cannot be read, or is no price list.
        """
        self._learn(await self.stored())
        return self._latest

    async def stored(self) -> PutPrices:
        """Return what the database holds, without going by it."""
        return await self._reader.run(_latest)

    async def get(self, version: str) -> PutPrices:
        """Return the last list of this version that was put.

        Raises:
            NotFoundError: none was.
        """
        query = (
            select(price_lists)
            .where(price_lists.c.version == version, price_lists.c.content.is_not(None))
            .order_by(price_lists.c.revision.desc())
            .limit(1)
        )
        row = await self._reader.run(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            message = f"no prices of version {version} were put"
            raise NotFoundError(message)
        return _put_prices(row)

    async def put(
        self,
        prices: PriceList | None,
        *,
        of_file: PriceList,
        expected_revision: int,
        by: Actor,
        now_ms: int,
    ) -> PutPrices:
        """Put `prices` in force, or with None those `of_file` again, from the next call on.

        Raises:
            VersionConflictError: something else was put since `expected_revision`.
        """
        after = PutPrices(
            revision=expected_revision + 1, prices=prices, put_at_ms=now_ms, put_by=by.name
        )

        def work(connection: Connection) -> PutPrices:
            before = _latest(connection)
            check_version(expected=expected_revision, actual=before.revision)
            connection.execute(insert(price_lists), _row(after, of_file))
            note(
                connection,
                by=by,
                at_ms=now_ms,
                action="prices.delete" if prices is None else "prices.put",
                target=_TARGET,
                before=_state(before, of_file),
                after=_state(after, of_file),
            )
            return after

        return await self._writer.run(
            in_turn(Duty.ADMINISTRATION, work), after_commit=lambda: self._learn(after)
        )

    def _learn(self, found: PutPrices) -> None:
        with self._learning:
            # What was read before a change may arrive after it.
            if found.revision > self._latest.revision:
                self._latest = found


def _latest(connection: Connection) -> PutPrices:
    query = select(price_lists).order_by(price_lists.c.revision.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return NEVER_PUT if row is None else _put_prices(row)


def _state(put: PutPrices, of_file: PriceList) -> dict[str, object]:
    """Return what the audit log keeps; the list itself stays in its own table."""
    prices, source = (of_file, "file") if put.prices is None else (put.prices, "admin")
    return {"version": prices.version, "source": source, "prices": len(prices.prices)}


def _row(put: PutPrices, of_file: PriceList) -> dict[str, object]:
    return {
        "revision": put.revision,
        "version": (of_file if put.prices is None else put.prices).version,
        "content": None if put.prices is None else json_of(_content(put.prices)),
        "put_at_ms": put.put_at_ms,
        "put_by": put.put_by,
    }


def _content(prices: PriceList) -> dict[str, object]:
    return {
        "prices": [
            {"provider": listed.provider, "model": listed.model, **_figures(listed.price)}
            for listed in prices.prices
        ],
        "unknown": None if prices.unknown is None else _figures(prices.unknown),
    }


def _figures(price: ModelPrice) -> dict[str, int | None]:
    # Only where they are given: what sidecars from before them stored and read stays the same.
    written = {
        "cache_write_microusd_per_mtok": price.cache_write_microusd_per_mtok,
        "cache_write_1h_microusd_per_mtok": price.cache_write_1h_microusd_per_mtok,
    }
    return {
        "input_microusd_per_mtok": price.input_microusd_per_mtok,
        "output_microusd_per_mtok": price.output_microusd_per_mtok,
        "cached_input_microusd_per_mtok": price.cached_input_microusd_per_mtok,
        **{name: figure for name, figure in written.items() if figure is not None},
    }


def _put_prices(row: Any) -> PutPrices:
    return PutPrices(
        revision=row.revision,
        prices=None if row.content is None else _price_list(row.content),
        put_at_ms=row.put_at_ms,
        put_by=row.put_by,
    )


def _price_list(content: str) -> PriceList:
    try:
        read = json.loads(content)
        unknown = read["unknown"]
        return PriceList(
            prices=tuple(
                ListedPrice(
                    provider=entry.pop("provider"),
                    model=entry.pop("model"),
                    price=ModelPrice(**entry),
                )
                for entry in read["prices"]
            ),
            unknown=None if unknown is None else ModelPrice(**unknown),
        )
    except (ValueError, LookupError, TypeError, AttributeError, InvalidPriceError) as error:
        # Calls that nobody can price are not run at a guess.
        message = "the stored price list cannot be read"
        raise StoreUnavailableError(message) from error
