"""The book of price lists, on each database, and with two sidecars on one."""

from pathlib import Path

import pytest
from contracts.builders import TENANT
from sqlalchemy import update

from governor.pricing import ListedPrice, ModelPrice, PriceList
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.errors import NotFoundError, StoreUnavailableError, VersionConflictError
from memory_store.prices import NEVER_PUT, PutPrices
from memory_store.store import Store, open_store
from memory_store.tables import price_lists

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")
OF_FILE = PriceList()
FULL = PriceList(
    prices=(
        ListedPrice(
            provider="openai",
            model="gpt-*",
            price=ModelPrice(
                input_microusd_per_mtok=3,
                output_microusd_per_mtok=10**12,
                cached_input_microusd_per_mtok=0,
                cache_write_microusd_per_mtok=4,
                cache_write_1h_microusd_per_mtok=6,
            ),
        ),
        ListedPrice(
            provider="*",
            model="наёмник-[ab]'\"",
            price=ModelPrice(input_microusd_per_mtok=0, output_microusd_per_mtok=0),
        ),
    ),
    unknown=ModelPrice(input_microusd_per_mtok=7, output_microusd_per_mtok=8),
)


async def put(store: Store, prices: PriceList | None, *, over: int) -> PutPrices:
    return await store.prices.put(
        prices, of_file=OF_FILE, expected_revision=over, by=ADMIN, now_ms=5
    )


async def test_a_list_is_read_as_it_was_put(
    store: Store, state_dir: Path, store_url: str | None
) -> None:
    assert await store.prices.read() == NEVER_PUT

    stored = await put(store, FULL, over=0)

    assert stored == PutPrices(revision=1, prices=FULL, put_at_ms=5, put_by="root")
    assert store.prices.latest == stored
    assert await store.prices.get(FULL.version) == stored
    another = state_dir.with_name("another") if store_url else None
    if another is not None:
        async with open_store(another, url=store_url, durability=Durability.PROCESS) as other:
            assert await other.prices.read() == stored


async def test_a_list_put_over_another_than_the_latest_is_refused(store: Store) -> None:
    await put(store, FULL, over=0)

    with pytest.raises(VersionConflictError):
        await put(store, PriceList(), over=0)

    assert (await store.prices.read()).prices == FULL


async def test_the_file_in_force_again_is_not_mistaken_for_a_list_that_was_put(
    store: Store,
) -> None:
    await put(store, FULL, over=0)
    await put(store, None, over=1)

    assert (await store.prices.read()).prices is None
    with pytest.raises(NotFoundError):
        await store.prices.get(OF_FILE.version)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"prices": [1], "unknown": null}', '{"prices": [], "unknown": {"x": 1}}'],
)
async def test_a_stored_list_that_is_none_is_said_and_never_guessed_at(
    store: Store, content: str
) -> None:
    await put(store, FULL, over=0)
    damage = update(price_lists).values(content=content)
    await store.writer.run(lambda connection: connection.execute(damage).close())

    with pytest.raises(StoreUnavailableError, match="price list cannot be read"):
        await store.prices.read()

    assert store.prices.latest.prices == FULL


async def test_what_was_read_before_a_change_does_not_undo_it(store: Store) -> None:
    first = await put(store, FULL, over=0)
    second = await put(store, PriceList(), over=1)

    store.prices._learn(first)

    assert store.prices.latest == second
    assert (await store.tenants.get(TENANT)).version == 1


@pytest.mark.slow
@pytest.mark.requirement("price.list-shared")
async def test_two_sidecars_replace_each_others_lists_in_turn(
    tmp_path: Path, database: str
) -> None:
    async with (
        open_store(tmp_path / "one", url=database, durability=Durability.PROCESS) as one,
        open_store(tmp_path / "two", url=database, durability=Durability.PROCESS) as two,
    ):
        first = await put(one, FULL, over=0)
        with pytest.raises(VersionConflictError):
            await put(two, PriceList(), over=0)
        assert await two.prices.read() == first

        second = await put(two, None, over=1)

        assert await one.prices.read() == second
