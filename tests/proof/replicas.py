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
from proof.survivors import TTL_MS, Link, Survivors
from proof.values import UNITS

from memory_store.engine import Durability

REPLICAS = 4
# What one replica of several acknowledges before it may be killed.
ACKS_MAX = 60
# The hot budget is twelve of these: it is used up early in some campaigns, late in others.
LIMITS = (300, 1_500)


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

    async def start(self, number: int) -> tuple[int, Link]:
        """Return a new replica that the clients may ask from now on."""
        pid, link = await self.forks.start(
            self.factory, self.folder, self.listener, state=f"state_{number}"
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
    async with _cluster(url, folder, replicas=REPLICAS, rng=rng) as cluster:
        for kill in range(kills):
            number = kill % REPLICAS
            pid, link = cluster.replicas[number]
            with anyio.fail_after(ANSWER_SECONDS_MAX):
                await link.expect(rng.randint(1, ACKS_MAX)).wait()
                await kill_soon(pid, link, rng)
            cluster.forks.see_killed(pid)
            cluster.survivors.counts["killed"] += 1
            cluster.replicas[number] = await cluster.start(number)
            if kill % 2:
                await cluster.reap(cluster.replicas[(number + 1) % REPLICAS][1])
            await cluster.judge()
    return cluster.survivors.counts


async def restart_the_database(
    url: str, folder: Path, restart: Callable[[], None], *, restarts: int, seed: int
) -> Counter[str]:
    """Return what happened, once two replicas outlived every restart of their database."""
    rng = random.Random(seed)
    async with _cluster(url, folder, replicas=2, rng=rng) as cluster:
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


@asynccontextmanager
async def _cluster(
    url: str, folder: Path, *, replicas: int, rng: random.Random
) -> AsyncIterator[Cluster]:
    """Yield replicas under load; when they are gone nothing may stay held."""
    factory = PostgresqlFactory(url, durability=Durability.POWER)
    limits = dict.fromkeys(UNITS, rng.choice(LIMITS))
    async with factory.open(folder) as stage:
        await set_up(stage, limits)
    survivors = Survivors(limits=limits, rng=rng)
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
                group.cancel_scope.cancel()
                for pid, _ in cluster.replicas:
                    os.kill(pid, signal.SIGKILL)
                    forks.see_killed(pid)
    await last_rites(factory, survivors, folder)
