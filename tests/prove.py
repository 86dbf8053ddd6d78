"""The long versions of the proofs, in parts that can be stopped and taken up again.

    make prove                          everything, as far as MINUTES allow (30)
    make prove PART=kills               one part
    make prove PART=simulation SEED=7   with a seed of your own

Each part is a row of small chunks, each drawn from the seed and its own number, so that a
failure names what to run again. What is done stands in benchmarks/proof.json, and the table in
benchmarks/PROOF.md is written from it. A part begins anew with another seed, or where the code
that it proves is another than it was.
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, Phase, core, settings
from hypothesis.stateful import run_state_machine_as_test

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from kernel.hostile import Tally, be_hostile, be_hostile_as, hostile_folder  # noqa: E402
from kernel.other_user import NOBODY  # noqa: E402
from postgresql_server import PostgresqlServer, running_server  # noqa: E402
from proof.failing_driver import Failure, failing_driver  # noqa: E402
from proof.failing_workload import fail_each  # noqa: E402
from proof.kills import Campaign, kill_again_and_again  # noqa: E402
from proof.model import LedgerMachine, world_of  # noqa: E402
from proof.oracle import Plan, crowd_on  # noqa: E402
from proof.planted import FOUND, outcome  # noqa: E402
from proof.replicas import kill_in_turn, restart_the_database  # noqa: E402
from proof.seeded_bugs import BUGS  # noqa: E402
from proof.stores import MemoryStage, PostgresqlFactory, SqliteFactory, StoreFactory  # noqa: E402
from proof.stories import BlockingStage, play_seed  # noqa: E402
from proof.upkeep import allotments, backup_kills, openapi, soak, upgrades  # noqa: E402
from upgrade.releases import RELEASES  # noqa: E402

from memory_store.crash_points import POINTS  # noqa: E402 - found only from here on
from memory_store.engine import Durability  # noqa: E402

PROGRESS = ROOT / "benchmarks" / "proof.json"
TABLE = ROOT / "benchmarks" / "PROOF.md"

Figures = dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One proof at full length: so many chunks, each a function of its seed."""

    says: str
    chunks: int
    run: Callable[[int, int], Figures]
    # A change anywhere else leaves the proof as good as it was.
    proven: tuple[str, ...] = ("governor", "memory_store", "migrations", "tests/proof")


def oracle(seed: int, chunk: int) -> Figures:
    """Spend on a store in files."""
    return spend(SqliteFactory(), seed, chunk)


def server_oracle(seed: int, chunk: int) -> Figures:
    """Spend on a store on a server."""
    with running_server() as server, server.database() as url:
        return spend(PostgresqlFactory(url), seed, chunk)


def spend(factory: StoreFactory, seed: int, chunk: int) -> Figures:
    """Spend fifty thousand reservations; every fifth crowd goes beyond what was held."""
    plan = Plan(
        reservations=50_000,
        clients=(64, 128, 256)[chunk % 3],
        sub_sessions=100,
        spends_beyond=chunk % 5 == 0,
        seed=seed,
    )

    async def main(folder: Path) -> Figures:
        async with factory.open(folder) as stage:
            crowd = await crowd_on(stage, plan)
            await crowd.run()
            await crowd.judge()
        return {"reservations": crowd.granted, "denials": crowd.denied, "units over": 0}

    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(main, Path(folder))


def kills(seed: int, chunk: int) -> Figures:
    """Kill what uses a store in files."""
    return survive(None, seed, chunk)


def server_kills(seed: int, chunk: int) -> Figures:
    """Kill what uses a store on a server."""
    with running_server() as server:
        return survive(server, seed, chunk)


def survive(server: PostgresqlServer | None, seed: int, chunk: int) -> Figures:
    """Kill fifty times, every second time at a named point."""
    campaign = Campaign(
        kills=50,
        seed=seed,
        points=POINTS,
        durability=Durability.PROCESS if chunk % 4 == 3 else Durability.POWER,
        databases=None if server is None else server.database,
    )
    with tempfile.TemporaryDirectory() as folder:
        counts = anyio.run(kill_again_and_again, campaign, Path(folder))
    at_points = sum(times for what, times in counts.items() if what.startswith("killed at "))
    return {
        "kills": campaign.kills,
        "of them at named points": at_points,
        "reservations": counts["granted"],
        "asked again": counts["asked again"],
        "acks lost": 0,
    }


def replicas(seed: int, _chunk: int) -> Figures:
    """Kill four replicas in turn, and restart the database under two."""
    with running_server() as server:
        with server.database() as url, tempfile.TemporaryDirectory() as folder:
            counts = anyio.run(lambda: kill_in_turn(url, Path(folder), kills=50, seed=seed))
        with server.database() as url, tempfile.TemporaryDirectory() as folder:
            counts += anyio.run(
                lambda: restart_the_database(
                    url, Path(folder), server.restart, restarts=10, seed=seed
                )
            )
    return {
        "kills": counts["killed"],
        "restarts": counts["restarted"],
        "reservations": counts["granted"],
        "asked again": counts["asked again"],
        "acks lost": 0,
    }


def simulation(seed: int, _chunk: int) -> Figures:
    """Play five thousand stories on the double and a hundred on the real store."""
    for one in range(seed, seed + 5_000):
        play_seed(one, MemoryStage())
    with tempfile.TemporaryDirectory() as folder, start_blocking_portal() as portal:
        for one in range(seed, seed + 100):
            where = Path(folder, str(one))
            where.mkdir()
            with portal.wrap_async_context_manager(SqliteFactory().open(where)) as stage:
                play_seed(one, BlockingStage(stage, portal))
    return {"stories": 5_000, "stories on the real store": 100, "broken": 0}


def model(seed: int, _chunk: int) -> Figures:
    """Play random histories against the reference."""
    core.global_force_seed = seed
    with world_of(SqliteFactory()) as world:
        machine = type("Machine", (LedgerMachine,), {"world": world})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=1_000,
                stateful_step_count=15,
                deadline=None,
                database=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            ),
        )
    return {"steps": world.steps, "disagreements": 0}


def faults(seed: int, chunk: int) -> Figures:
    """Fail every operation of the workload, one after the other, in one way."""
    failure = list(Failure)[chunk % len(Failure)]

    async def main(folder: Path) -> int:
        with failing_driver() as driver:
            async with SqliteFactory().open(folder) as stage:
                return await fail_each(stage, driver, failure, at_once=1 + seed % 8)

    with tempfile.TemporaryDirectory() as folder:
        return {"failed operations": anyio.run(main, Path(folder)), "harm done": 0}


def bugs(_seed: int, chunk: int) -> Figures:
    """Plant a bug, and have it found."""
    bug = BUGS[chunk]
    with tempfile.TemporaryDirectory() as folder:
        code, said = outcome(Path(folder), [bug.found_by], bug)
    assert code == FOUND, f"{bug.name} was not found by {bug.found_by}:\n{said}"
    return {"bugs found": 1, "bugs missed": 0}


def hostile(seed: int, _chunk: int) -> Figures:
    """Be hostile a hundred times to a sidecar that is root."""

    async def main() -> Tally:
        with hostile_folder() as folder:
            return await be_hostile(folder, calls=100, seed=seed, force_rlimit=False)

    return withstood(anyio.run(main))


def hostile_user(seed: int, _chunk: int) -> Figures:
    """Be hostile a hundred times to a sidecar that is not root."""
    return withstood(anyio.run(lambda: be_hostile_as(NOBODY, calls=100, seed=seed)))


def withstood(tally: Tally) -> Figures:
    """Return what a crowd tried; what it achieved must be nothing."""
    assert tally.harm == [], tally.harm
    return {"calls": tally.calls, "cancelled": tally.cancelled, "survivors, escapes, leaks": 0}


CONTAINED = ("ebpf", "tests/kernel/hostile.py", "tests/kernel/hostile_kinds.py")

PARTS = {
    "oracle": Part(says="a provider counts what was spent", chunks=20, run=oracle),
    "kills": Part(says="SIGKILL and retry with the same keys", chunks=20, run=kills),
    "server-oracle": Part(says="the same on PostgreSQL", chunks=20, run=server_oracle),
    "server-kills": Part(says="the same on PostgreSQL", chunks=20, run=server_kills),
    "replicas": Part(says="replicas killed, database restarted", chunks=20, run=replicas),
    "simulation": Part(says="stories in virtual time", chunks=20, run=simulation),
    "model": Part(says="random histories beside a reference", chunks=30, run=model),
    "faults": Part(says="each database operation fails once", chunks=40, run=faults),
    "bugs": Part(says="seeded bugs", chunks=len(BUGS), run=bugs),
    "backup-kills": Part(
        says="backups and restores killed at every step",
        chunks=3,
        run=backup_kills,
        proven=("governor", "memory_store", "migrations", "tests/memory_store/backups"),
    ),
    "allotments": Part(
        says="allotments in a storm, to 10,000 replicas",
        chunks=8,
        run=allotments,
        proven=("governor", "tests/proof"),
    ),
    "upgrades": Part(
        says="earlier releases at work during a rollout",
        chunks=len(RELEASES),
        run=upgrades,
        proven=("governor", "memory_store", "migrations", "tests/upgrade"),
    ),
    "soak": Part(
        says="memory, descriptors, log and p99 under steady load",
        chunks=3,
        run=soak,
        proven=("governor", "memory_store", "migrations", "runtime", "tool_gateway", "tests/soak"),
    ),
    "openapi": Part(
        says="schemathesis on the admin API",
        chunks=10,
        run=openapi,
        proven=("governor", "memory_store", "migrations", "runtime/admin", "tests/runtime/admin"),
    ),
    "hostile": Part(
        says="hostile calls of a sidecar that is root", chunks=10, run=hostile, proven=CONTAINED
    ),
    "hostile-user": Part(
        says="hostile calls of a sidecar that is not", chunks=10, run=hostile_user, proven=CONTAINED
    ),
}


@dataclass(kw_only=True)
class Row:
    """What was done of one part: with which seed, on which code."""

    seed: int
    code: str
    commit: str
    chunks: dict[str, dict[str, Any]]


class Progress:
    """What was done, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        self.rows = {name: Row(**row) for name, row in kept.items()}

    def begin(self, part: str, *, seed: int | None, code: str, commit: str) -> Row:
        """Go on with `part`, or begin it anew if it was another's."""
        row = self.rows.get(part)
        if row is None or row.code != code or seed not in (None, row.seed):
            drawn = random.SystemRandom().randrange(2**31) if seed is None else seed
            row = self.rows[part] = Row(seed=drawn, code=code, commit=commit, chunks={})
        return row

    def note(self, part: str, chunk: int, said: dict[str, Any]) -> None:
        """Keep what became of `chunk`, in the file too."""
        self.rows[part].chunks[str(chunk)] = said
        kept = {name: asdict(row) for name, row in sorted(self.rows.items())}
        self._path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is left of the parts; return 0 while nothing has failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seed", type=int, help="draw from this number")
    parser.add_argument("--minutes", type=float, default=30.0, help="begin no chunk after this")
    parser.add_argument("--story", type=int, help="play this one story and nothing else")
    arguments = parser.parse_args(argv)
    if arguments.story is not None:
        say(dict(play_seed(arguments.story, MemoryStage())))
        return 0
    wanted = arguments.parts or list(PARTS)
    unknown = sorted(set(wanted) - PARTS.keys())
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}")
    progress, commit = Progress(PROGRESS), git("rev-parse", "--short", "HEAD")
    for name in wanted:
        code = digest(git("rev-parse", *(f"HEAD:{one}" for one in PARTS[name].proven)))
        row = progress.begin(name, seed=arguments.seed, code=code, commit=commit)
        say(f"{name}: seed {row.seed}, code of commit {row.commit}")
    ends = time.monotonic() + arguments.minutes * 60
    for name, chunk in left(wanted, progress):
        if time.monotonic() > ends:
            say("time is up; the same command goes on from here")
            return 0
        if not prove(name, chunk, progress):
            return 1
    return 0


def left(wanted: Sequence[str], progress: Progress) -> Iterator[tuple[str, int]]:
    """Yield the chunks that were not done, the parts in turn, so that each gets somewhere."""
    most = max(PARTS[name].chunks for name in wanted)
    for chunk in range(most):
        for name in wanted:
            done = progress.rows[name].chunks.get(str(chunk), {}).get("passed", False)
            if chunk < PARTS[name].chunks and not done:
                yield name, chunk


def prove(name: str, chunk: int, progress: Progress) -> bool:
    """Run one chunk, note it, write the table; tell whether it passed."""
    row = progress.rows[name]
    seed = row.seed + chunk * 10_000
    began = time.monotonic()
    try:
        figures = PARTS[name].run(seed, chunk)
    except Exception:  # noqa: BLE001 - the top of a chunk; it is told and ends the run
        traceback.print_exc()
        say(f"{name}/{chunk} FAILED: make prove PART={name} SEED={row.seed}")
        progress.note(name, chunk, {"passed": False, "seconds": time.monotonic() - began})
        write_table(progress)
        return False
    seconds = time.monotonic() - began
    say(f"{name}/{chunk} {seconds:.0f} s {figures}")
    progress.note(name, chunk, {"passed": True, "seconds": seconds, "figures": figures})
    write_table(progress)
    return True


def say(line: object) -> None:
    """Print at once: a part takes minutes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def write_table(progress: Progress) -> None:
    """Write the table of everything that was done so far."""
    lines = [
        "# The proof",
        "",
        "What `make prove` has run so far; a chunk that fails stops it. How: `tests/proof`.",
        "",
        "SQLite where nothing else is said.",
        "",
        "| part | chunks | result | figures | minutes | commit, seed |",
        "|---|---|---|---|---|---|",
    ]
    for name, part in PARTS.items():
        row = progress.rows.get(name)
        ran = [] if row is None else list(row.chunks.values())
        figures: dict[str, int] = {}
        for one in ran:
            for what, count in one.get("figures", {}).items():
                figures[what] = figures.get(what, 0) + count
        failed = sum(not one["passed"] for one in ran)
        result = f"**{failed} failed**" if failed else ("passed" if ran else "not yet run")
        told = ", ".join(f"{count:,} {what}" for what, count in figures.items())
        minutes = sum(one["seconds"] for one in ran) / 60
        run = f"{len(ran)}/{part.chunks}"
        of = "" if row is None else f"{row.commit}, {row.seed}"
        lines.append(f"| {name}: {part.says} | {run} | {result} | {told} | {minutes:.0f} | {of} |")
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def git(*asked: str) -> str:
    """Return what git says of the checkout, nothing known where it is none."""
    done = subprocess.run(["git", *asked], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def digest(text: str) -> str:
    """Return a short name of `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
