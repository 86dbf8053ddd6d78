"""A ledger that is killed under its clients, again and again, each time started anew.

After each kill the books are opened and held against what was acknowledged.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import SocketListener
from proof.stores import PostgresqlFactory, SqliteFactory, Stage
from proof.survivors import LEVELS, TTL_MS, Link, Survivors, judge_the_end, levels_of, share_of
from proof.values import UNITS, budget_of

from memory_store.engine import Durability

ROOT = Path(__file__).parents[2]
CLIENTS = 32
ANSWER_SECONDS_MAX = 60
# What a server acknowledges before it may be killed, and how long after that at the most.
ACKS_MAX, DELAY_SECONDS_MAX = 300, 0.004

Factory = SqliteFactory | PostgresqlFactory
Databases = Callable[[], AbstractContextManager[str]]


@dataclass
class Servers:
    """The process that forks the servers; blocking, and each answer comes at once."""

    process: subprocess.Popen[str]

    def order(self, order: dict[str, Any]) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    async def start(
        self,
        factory: Factory,
        folder: Path,
        listener: SocketListener,
        *,
        state: str = "state",
        point: str = "",
        nth: int = 0,
    ) -> tuple[int, Link]:
        """Return the pid of a new server and the connection to it, once it is ready."""
        options = {
            "state": str(folder / state),
            "url": factory.url if isinstance(factory, PostgresqlFactory) else None,
            "socket": str(folder / "socket"),
            "durability": factory.durability.value,
            "point": point,
            "nth": nth,
        }
        pid = self.order({"start": options})
        with anyio.fail_after(ANSWER_SECONDS_MAX):
            return pid, Link(await listener.accept())

    def see_killed(self, pid: int) -> None:
        """Return once the server is gone, and nothing but the kill ended it."""
        assert self.order({"wait": pid}) == -signal.SIGKILL


@contextmanager
def servers() -> Iterator[Servers]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    with subprocess.Popen(
        [sys.executable, "-m", "proof.kill_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    ) as process:
        try:
            yield Servers(process)
        finally:
            process.kill()


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """How often to kill, at which named points, and how long one store lasts.

    With `databases`, each store is a new database of a server, else one in files.
    """

    kills: int
    seed: int
    points: tuple[str, ...] = ()
    durability: Durability = Durability.POWER
    kills_per_store: int = 25
    databases: Databases | None = None


async def kill_again_and_again(campaign: Campaign, folder: Path) -> Counter[str]:
    """Return what happened, once every kill was survived."""
    totals: Counter[str] = Counter()
    rng = random.Random(campaign.seed)
    with servers() as forks:
        done = 0
        while done < campaign.kills:
            part = min(campaign.kills_per_store, campaign.kills - done)
            where = folder / f"after_{done}"
            where.mkdir()
            kills = range(done, done + part)
            with _factory(campaign) as factory:
                totals += await _one_store(forks, campaign, factory, where, rng, kills=kills)
            done += part
    return totals


@contextmanager
def _factory(campaign: Campaign) -> Iterator[Factory]:
    if campaign.databases is None:
        yield SqliteFactory(durability=campaign.durability)
        return
    with campaign.databases() as url:
        yield PostgresqlFactory(url, durability=campaign.durability)


async def _one_store(
    forks: Servers,
    campaign: Campaign,
    factory: Factory,
    folder: Path,
    rng: random.Random,
    *,
    kills: Iterable[int],
) -> Counter[str]:
    limits = dict.fromkeys(UNITS, rng.choice([600, 3_000, 60_000]))
    survivors = Survivors(limits=limits, rng=rng)
    async with factory.open(folder) as stage:
        await set_up(stage, survivors)
    with anyio.fail_after(600):
        async with (
            await anyio.create_unix_listener(folder / "socket") as listener,
            anyio.create_task_group() as group,
        ):
            for number in range(CLIENTS):
                group.start_soon(survivors.client, number)
            for kill in kills:
                # Every second server dies at a named point, the others wherever they are.
                named = campaign.points if kill % 2 else ()
                point = named[kill // 2 % len(named)] if named else ""
                started = await forks.start(
                    factory, folder, listener, point=point, nth=rng.randint(1, 20)
                )
                await _one_life(factory, survivors, *started, point=point)
                forks.see_killed(started[0])
                async with factory.open(folder) as stage:
                    survivors.judge(await stage.facts(), survivors.told())
            group.cancel_scope.cancel()
    await last_rites(factory, survivors, folder)
    return survivors.counts


async def _one_life(
    factory: Factory, survivors: Survivors, pid: int, link: Link, *, point: str
) -> None:
    """Let the clients at a new server, and see it killed."""
    rng = survivors.rng
    enough = link.expect(rng.randint(1, ACKS_MAX))
    async with anyio.create_task_group() as group:
        group.start_soon(link.listen)
        if rng.random() < 0.7:
            is_all = rng.random() < 0.5
            if is_all and isinstance(factory, PostgresqlFactory):
                # What another process holds there ends by its time alone.
                survivors.now_ms += TTL_MS
            all_live = is_all and isinstance(factory, SqliteFactory)
            group.start_soon(survivors.reap_once, link, all_live)
        survivors.reach(link)
        with anyio.fail_after(ANSWER_SECONDS_MAX):
            if point:
                await link.lost.wait()
                survivors.counts[f"killed at {point}"] += 1
            else:
                await enough.wait()
                await kill_soon(pid, link, rng)
                survivors.counts["killed anywhere"] += 1


async def kill_soon(pid: int, link: Link, rng: random.Random) -> None:
    """Kill the server at an instant that nobody chose."""
    await anyio.sleep(rng.uniform(0, DELAY_SECONDS_MAX))
    os.kill(pid, signal.SIGKILL)
    await link.lost.wait()


async def set_up(stage: Stage, survivors: Survivors) -> None:
    for tenant in survivors.tenants:
        for name, scope in zip(levels_of(tenant), LEVELS.values(), strict=True):
            limits = {unit: limit * share_of(name) for unit, limit in survivors.limits.items()}
            await stage.put_budget(budget_of(name, tenant, scope, limits))


async def last_rites(factory: Factory, survivors: Survivors, folder: Path) -> None:
    """Expire what is left, as the next start would; nothing may stay held."""
    is_shared = isinstance(factory, PostgresqlFactory)
    if is_shared:
        survivors.now_ms += TTL_MS + 1
    async with factory.open(folder) as stage:
        await stage.ledger.expire_due(now_ms=survivors.now_ms, all_live=not is_shared)
        judge_the_end(survivors, await stage.facts())
