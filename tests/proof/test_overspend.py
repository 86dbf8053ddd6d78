"""A provider counts what is really spent: never one unit more than any budget allows."""

from pathlib import Path

import pytest
from proof.oracle import Plan, crowd_on
from proof.scale import scaled
from proof.stores import PostgresqlFactory, StoreFactory

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.requirement("proof.no-overspend")
@pytest.mark.parametrize("clients", [64, 256])
async def test_not_one_unit_is_spent_above_any_budget(
    factory: StoreFactory, tmp_path: Path, seed: int, clients: int
) -> None:
    plan = Plan(
        reservations=_count(factory, 12_000, on_a_server=1_500),
        clients=clients,
        sub_sessions=0 if factory.is_double else 100,
        seed=seed,
    )
    async with factory.open(tmp_path) as stage:
        crowd = await crowd_on(stage, plan)
        await crowd.run()

        await crowd.judge()


@pytest.mark.requirement("proof.overspend-is-overrun")
async def test_what_is_spent_beyond_the_holds_is_recorded_to_the_unit(
    factory: StoreFactory, tmp_path: Path, seed: int
) -> None:
    plan = Plan(
        reservations=_count(factory, 6_000, on_a_server=1_000),
        sub_sessions=0 if factory.is_double else 100,
        spends_beyond=True,
        seed=seed,
    )
    async with factory.open(tmp_path) as stage:
        crowd = await crowd_on(stage, plan)
        await crowd.run()

        await crowd.judge()
        assert sum(crowd.provider.beyond.values()) > 0


def _count(factory: StoreFactory, of_a_store: int, *, on_a_server: int) -> int:
    """The double is only what other tests stand on; a few thousand show that it agrees.

    A server is slow, and full size on it is a part of `make prove`.
    """
    if isinstance(factory, PostgresqlFactory):
        return scaled(on_a_server)
    return scaled(of_a_store // 15 if factory.is_double else of_a_store)
