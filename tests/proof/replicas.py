"""Several servers on one database: each killed in turn, or the database itself restarted.

The clients ask whichever server there is; the others go on all the while, and so the books
are read beside them.
"""

import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import psycopg
from anyio.abc import SocketListener, TaskGroup
from proof.kills import (
    ANSWER_SECONDS_MAX,
    CLIENTS,
    Servers,
    kill_soon,
    last_rites,
    servers,
    set_up,
)
from proof.stores import PostgresqlFactory
from proof.survivors import OTHER_TENANT, TENANT, TTL_MS, Link, Survivors
from proof.values import UNITS

from memory_store.crash_points import POINTS
from memory_store.engine import Durability

REPLICAS = 4
# What one replica of several acknowledges before it may be killed.
ACKS_MAX = 60
# How often a replica passes the named point that it dies at.
NTH_MAX = 30
# The hot budget is twelve of these: it is used up early in some campaigns, late in others.
LIMITS, PLENTY = (300, 900), 60_000


@dataclass(kw_only=True)
class Cluster:
    """The replicas of the moment, and the clients of all of them."""

    forks: Servers
    factory: PostgresqlFactory
    folder: Path
    listener: SocketListener
    group: TaskGroup
    survivors: Survivors
    replicas: list[tuple[int, Link]] = field(default_factory=list)

    async def start(self, number: int, *, point: str = "") -> tuple[int, Link]:
        """Return a new replica that the clients may ask from now on."""
        pid, link = await self.forks.start(
            self.factory,
            self.folder,
            self.listener,
            state=f"state_{number}",
            point=point,
            nth=self.survivors.rng.randint(1, NTH_MAX),
        )
        self.group.start_soon(link.listen)
        self.survivors.reach(link)
        return pid, link

    async def reap(self, link: Link) -> None:
        """End what the dead left behind, on a replica that lives: its time has come."""
        self.survivors.now_ms += TTL_MS
        await self.survivors.reap_once(link, all_live=False)

    async def judge(self) -> None:
        """Hold the books against what was acknowledged before they are read."""
        told = self.survivors.told()
        async with self.factory.open(self.folder) as stage:
            self.survivors.judge(await stage.facts(), told)


async def kill_in_turn(url: str, folder: Path, *, kills: int, seed: int) -> Counter[str]:
    """Return what happened, once each replica was killed and started anew in its turn."""
    rng = random.Random(seed)
    async with _cluster(
        url, folder, replicas=REPLICAS, limit=rng.choice(LIMITS), rng=rng
    ) as cluster:
        for kill in range(kills):
            number = kill % REPLICAS
            pid, link = cluster.replicas[number]
            with anyio.fail_after(ANSWER_SECONDS_MAX):
                await link.expect(rng.randint(1, ACKS_MAX)).wait()
                await kill_soon(pid, link, rng)
            cluster.forks.see_killed(pid)
            cluster.survivors.counts["killed"] += 1
            # Every second one dies at a named point, at the latest when its turn comes.
            point = rng.choice(POINTS) if kill % 2 else ""
            cluster.replicas[number] = await cluster.start(number, point=point)
            if kill % 2:
                await cluster.reap(cluster.replicas[number][1])
            await cluster.judge()
        counts = cluster.survivors.counts
    counts["deadlocks"] = deadlocks_in(url)
    return counts


def deadlocks_in(url: str) -> int:
    """Return how often the server had to end one of two that waited for each other."""
    asked = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    with psycopg.connect(url) as connection:
        ((deadlocks,),) = connection.execute(asked).fetchall()
    return int(deadlocks)


async def restart_the_database(
    url: str, folder: Path, restart: Callable[[], None], *, restarts: int, seed: int
) -> Counter[str]:
    """Return what happened, once two replicas outlived every restart of their database."""
    rng = random.Random(seed)
    async with _cluster(url, folder, replicas=2, limit=PLENTY, rng=rng) as cluster:
        for _ in range(restarts):
            await _all_answer(cluster, rng)
            await anyio.to_thread.run_sync(restart)
            cluster.survivors.counts["restarted"] += 1
            # The same processes answer as before, and not that they cannot.
            granted = cluster.survivors.counts["granted"]
            await _all_answer(cluster, rng)
            with anyio.fail_after(ANSWER_SECONDS_MAX):
                while cluster.survivors.counts["granted"] == granted:
                    await cluster.replicas[0][1].expect(1).wait()
            assert not any(link.lost.is_set() for _, link in cluster.replicas)
            await cluster.judge()
    return cluster.survivors.counts


async def _all_answer(cluster: Cluster, rng: random.Random) -> None:
    with anyio.fail_after(ANSWER_SECONDS_MAX):
        for _, link in cluster.replicas:
            await link.expect(rng.randint(1, ACKS_MAX)).wait()


async def _kill_all(cluster: Cluster) -> None:
    """Return once nobody answers: only then may a task that listens be cancelled."""
    with anyio.move_on_after(ANSWER_SECONDS_MAX, shield=True):
        for pid, link in cluster.replicas:
            os.kill(pid, signal.SIGKILL)
            cluster.forks.see_killed(pid)
            await link.lost.wait()


@asynccontextmanager
async def _cluster(
    url: str, folder: Path, *, replicas: int, limit: int, rng: random.Random
) -> AsyncIterator[Cluster]:
    """Yield replicas under load; when they are gone nothing may stay held."""
    factory = PostgresqlFactory(url, durability=Durability.POWER)
    limits = dict.fromkeys(UNITS, limit)
    survivors = Survivors(limits=limits, rng=rng, tenants=(TENANT, OTHER_TENANT))
    async with factory.open(folder) as stage:
        await set_up(stage, survivors)
    with servers() as forks, anyio.fail_after(600):
        async with (
            await anyio.create_unix_listener(folder / "socket") as listener,
            anyio.create_task_group() as group,
        ):
            cluster = Cluster(
                forks=forks,
                factory=factory,
                folder=folder,
                listener=listener,
                group=group,
                survivors=survivors,
            )
            for number in range(replicas):
                cluster.replicas.append(await cluster.start(number))
            for number in range(CLIENTS):
                group.start_soon(survivors.client, number)
            try:
                yield cluster
            finally:
                await _kill_all(cluster)
                group.cancel_scope.cancel()
    await last_rites(factory, survivors, folder)
