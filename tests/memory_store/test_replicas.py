"""Four sidecars, each a process of its own, on one hot budget of one database."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import pytest
from contracts.builders import COST, TENANT, budget, chain

from governor.ids import SessionId, TaskClass
from governor.turn_policy import TurnMode
from memory_store.accounts import BalanceView
from memory_store.audit import Actor
from memory_store.conservation import Conservation
from memory_store.engine import Durability
from memory_store.store import Store, open_store

ROOT = Path(__file__).parents[2]
REPLICAS = 4
ADMIN = Actor(name="root")

# Reserves, forwards and ends calls, and says after each what it was told is stored.
REPLICA = """
import json
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import anyio

from contracts.builders import COST, record, request, used
from governor.events import Reserved
from memory_store.engine import Durability
from memory_store.store import open_store

url, state_dir, name, calls = sys.argv[1:]
random = Random(name)


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


async def main() -> None:
    async with open_store(Path(state_dir), url=url, durability=Durability.PROCESS) as store:
        ledger = store.ledger

        async def call(number: int) -> None:
            asked = replace(
                request({COST: random.randint(1, 9)}),
                reservation_id=f"res_{name}_{number}",
                call_id=f"call_{name}_{number}",
            )
            if not isinstance(await ledger.admit(asked), Reserved):
                say(denied=1)
                return
            if random.random() < 0.2:
                await ledger.release(asked.reservation_id, record(asked))
                say(released=1)
                return
            await ledger.forward(asked.reservation_id)
            say(forwarded=1)
            usage = used({COST: random.randint(0, asked.estimate.of(COST))})
            await ledger.settle(asked.reservation_id, usage, record(asked, usage=usage))
            say(settled=1, cost=usage.measured.of(COST))

        async def client(first: int) -> None:
            for number in range(first, int(calls), 16):
                await call(number)

        say(ready=1)
        sys.stdin.readline()
        async with anyio.create_task_group() as group:
            for first in range(16):
                group.start_soon(client, first)


anyio.run(main)
"""

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@contextmanager
def _replicas(url: str, folder: Path, *, calls: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Yield the replicas when all of them are about to begin."""
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", REPLICA, url, folder / name, name, str(calls)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
                )
            )
            for name in [f"r{number}" for number in range(REPLICAS)]
        ]
        try:
            for replica in running:
                assert replica.stdout is not None
                assert json.loads(replica.stdout.readline()) == {"ready": 1}
            for replica in running:
                assert replica.stdin is not None
                replica.stdin.write("go\n")
                replica.stdin.flush()
            yield running
        finally:
            for replica in running:
                replica.kill()


def _totals(lines: list[str]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for line in lines:
        if line.endswith("\n"):
            for name, value in json.loads(line).items():
                totals[name] = totals.get(name, 0) + value
    return totals


def _hammer(url: str, folder: Path, *, calls: int) -> tuple[dict[str, int], list[int]]:
    """Return what all replicas were told together, and how each of them ended."""
    with _replicas(url, folder, calls=calls) as running:
        said = [replica.communicate(timeout=100)[0] for replica in running]
        codes = [replica.returncode for replica in running]
    return _totals("".join(said).splitlines(keepends=True)), codes


def _hammer_and_kill_one(url: str, folder: Path) -> tuple[dict[str, int], list[int]]:
    """As `_hammer`, but the first replica is killed in the middle of its work."""
    with _replicas(url, folder, calls=400) as running:
        victim = running[0]
        assert victim.stdout is not None
        lines = [victim.stdout.readline() for _ in range(200)]
        victim.send_signal(signal.SIGKILL)
        lines += victim.stdout.readlines()
        for replica in running[1:]:
            said, _ = replica.communicate(timeout=100)
            lines += said.splitlines(keepends=True)
        codes = [replica.returncode for replica in running[1:]]
    return _totals(lines), codes


async def _prepare(state_dir: Path, url: str, *, limit: int) -> None:
    async with open_store(state_dir, url=url) as store:
        await store.tenants.create(TENANT, name="Acme", by=ADMIN, now_ms=1)
        await store.budgets.create(budget({COST: limit}), by=ADMIN, now_ms=1)


async def _balance(state_dir: Path, url: str) -> BalanceView:
    async with open_store(state_dir, url=url) as store:
        await store.ledger.expire_due(now_ms=20_000)
        (view,) = await store.ledger.balances(tenant=TENANT, now_ms=1_000)
        assert await store.reader.run(Conservation().breaches) == []
    return view


@pytest.mark.requirement("shared.one-budget")
async def test_four_replicas_on_one_hot_budget_never_overspend_it(
    tmp_path: Path, database: str
) -> None:
    await _prepare(tmp_path / "first", database, limit=2_000)

    told, codes = await anyio.to_thread.run_sync(lambda: _hammer(database, tmp_path, calls=500))

    view = await _balance(tmp_path / "last", database)
    assert codes == [0] * REPLICAS
    assert told["denied"] + told["settled"] + told["released"] == 4 * 500
    assert told["denied"] > 0
    assert (view.used, view.reserved, view.overrun) == (told["cost"], 0, 0)
    assert view.used <= 2_000


@pytest.mark.requirement("shared.holds-of-others")
async def test_what_a_killed_replica_was_told_stands_and_the_others_go_on(
    tmp_path: Path, database: str
) -> None:
    await _prepare(tmp_path / "first", database, limit=10**9)

    told, codes = await anyio.to_thread.run_sync(_hammer_and_kill_one, database, tmp_path)

    view = await _balance(tmp_path / "last", database)
    assert codes == [0] * (REPLICAS - 1)
    # A forwarded hold that its owner never ended is charged in full when its time is over.
    assert view.reserved == 0
    assert (
        told["cost"] <= view.used <= told["cost"] + 9 * (told["forwarded"] - told["settled"] + 16)
    )


async def test_a_session_that_begins_at_several_replicas_at_once_begins_once(
    tmp_path: Path, database: str
) -> None:
    async def begin(store: Store, number: int) -> None:
        await store.turns.begin(
            chain(session=f"ses_{number}"),
            task_class=TaskClass("bug"),
            mode=TurnMode.FIXED,
            base_turns=20,
            now_ms=1,
        )

    with anyio.fail_after(120):
        async with (
            open_store(tmp_path / "one", url=database, durability=Durability.PROCESS) as one,
            open_store(tmp_path / "two", url=database, durability=Durability.PROCESS) as two,
        ):
            for number in range(60):
                async with anyio.create_task_group() as group:
                    group.start_soon(begin, one, number)
                    group.start_soon(begin, two, number)
            view = await two.turns.view(SessionId("ses_59"))

    assert (view.task_class, view.base_turns) == ("bug", 20)
