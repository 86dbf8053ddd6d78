import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from contracts.builders import COST, TENANT

from memory_store.engine import Durability
from memory_store.store import open_store
from memory_store.tables import reservations

ROOT = Path(__file__).parents[2]

# Admits without pause and names each reservation on standard output once it is acknowledged.
CHILD = """
import sys
from pathlib import Path

import anyio

from contracts.builders import COST, TENANT, budget, request
from governor.events import Reserved
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.store import open_store


async def main() -> None:
    async with open_store(Path(sys.argv[1]), durability=Durability(sys.argv[2])) as store:
        admin = Actor(name="root")
        await store.tenants.create(TENANT, name="Acme", by=admin, now_ms=1)
        await store.budgets.create(budget({COST: 10**9}), by=admin, now_ms=1)

        async def client() -> None:
            while True:
                asked = request({COST: 3})
                assert isinstance(await store.ledger.admit(asked), Reserved)
                await store.ledger.forward(asked.reservation_id)
                print(asked.reservation_id, flush=True)

        async with anyio.create_task_group() as group:
            for _ in range(16):
                group.start_soon(client)


anyio.run(main)
"""

pytestmark = pytest.mark.anyio


def _acknowledged_until_killed(state_dir: Path, durability: Durability) -> list[str]:
    """Return what a child was told is stored before it was killed in the middle of its work."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(state_dir), durability.value],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
    ) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(500)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
    return [line.strip() for line in lines if line.endswith("\n")]


@pytest.mark.parametrize("durability", list(Durability))
async def test_whatever_was_acknowledged_survives_kill_9(
    state_dir: Path, durability: Durability
) -> None:
    acknowledged = await anyio.to_thread.run_sync(_acknowledged_until_killed, state_dir, durability)

    async with open_store(state_dir) as store:
        stored = await store.reader.run(
            lambda connection: set(
                connection.scalars(
                    reservations.select().with_only_columns(reservations.c.reservation_id)
                )
            )
        )
        expired = await store.ledger.expire_due(now_ms=2_000, all_live=True)
        (view,) = await store.ledger.balances(tenant=TENANT, now_ms=2_000)

    assert len(acknowledged) >= 500
    assert set(acknowledged) <= stored
    assert {one.reservation.reservation_id for one in expired} == stored
    assert view.unit is COST
    assert view.reserved == 0
    # What was forwarded is charged; the few that were killed before are refunded.
    assert 3 * len(acknowledged) <= view.used <= 3 * len(stored)
