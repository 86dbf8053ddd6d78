"""The proofs of what keeps Flyball running: backups, upgrades, allotments, the soak, the API."""

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import anyio
from postgresql_server import running_server
from proof.allotments import STORM, Simulation, Story
from soak.soak import Soak
from upgrade.releases import RELEASES, ROOT
from upgrade.rolling import rolled_over

from tests.memory_store.backups.drill import Drill
from tests.runtime.admin.admin_opening import opened_world
from tests.runtime.admin.admin_world import Clock
from tests.runtime.admin.openapi_fuzz import Fuzz, fuzzed

Figures = dict[str, int]

SOAKED = ROOT / "build" / "soak"
SOAK_SECONDS = float(os.environ.get("FLYBALL_SOAK_SECONDS", "600"))


def backup_kills(seed: int, chunk: int) -> Figures:
    """Kill backups, restores and a server's restores at every step, each at a chunk of its own."""
    kind = ("backups", "restores", "server")[chunk]
    every = 10 if kind == "server" else 1
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server() as server,
        server.database() as empty,
        server.database() as full,
    ):
        drill = Drill(folder=Path(folder), first=1 + seed % every, every=every, url=empty)
        drill.run(kind, backed_up=full)
    return {"kills": drill.kills, "halves left": 0}


def upgrades(_seed: int, chunk: int) -> Figures:
    """Roll over from one of the earlier releases to this one, on a server."""
    revision = list(RELEASES)[chunk]
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server() as server,
        server.database() as url,
    ):
        calls = rolled_over(revision, url, Path(folder))
    return {"calls by the old": calls["old"], "calls by the new": calls["new"], "failed": 0}


def allotments(seed: int, chunk: int) -> Figures:
    """Play a storm over some replicas more each time, and over ten thousand in the last."""
    replicas = 10 ** (1 + chunk % 4)
    story = Story(replicas=replicas, limit=replicas * 300, trouble=STORM, calls_per_s=0.5)
    found = Simulation(replace(story, window_s=120.0), seed).run()
    counted = ("calls", "crashed", "books lost", "cut off", "paused", "messages")
    return {**{what: found[what] for what in counted}, "windows overspent": 0}


def soak(seed: int, chunk: int) -> Figures:
    """Load a sidecar for ten minutes; the store and the first figures are those of before."""
    if chunk == 0:
        shutil.rmtree(SOAKED, ignore_errors=True)
    SOAKED.mkdir(parents=True, exist_ok=True)
    return anyio.run(Soak(folder=SOAKED, seconds=SOAK_SECONDS, seed=seed).run)


def openapi(seed: int, _chunk: int) -> Figures:
    """Ask every route of the administration forty times, half of them wrongly."""

    async def main(state_dir: Path) -> Fuzz:
        async with opened_world(state_dir, Clock()) as world:
            return await fuzzed(world, examples=20, seed=seed)

    with tempfile.TemporaryDirectory() as folder:
        fuzz = anyio.run(main, Path(folder, "state"))
    assert not fuzz.found, fuzz.told()
    asked = fuzz.asked.total()
    return {"requests": asked, "routes": len(fuzz.asked), "answers other than described": 0}
