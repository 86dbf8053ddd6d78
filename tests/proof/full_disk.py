"""A ledger on a disk that fills up, in a process of its own: `python -m proof.full_disk`.

It admits and settles until the store refuses, tells what was acknowledged, waits to hear
that there is room again, and goes on. With `--growth-bytes-max` the kernel refuses to let a
file grow, which any user may ask for; without it the folder has to be a small disk.
"""

import argparse
import json
import resource
import signal
import sys
from pathlib import Path

import anyio
import anyio.to_thread
from proof.facts import faults_of
from proof.stores import SqliteFactory, SqlStage
from proof.values import CALLS, COST, budget_of, chain_of, record_for, request_of, usage_of

from governor.events import Reserved
from governor.scope import ScopeKind
from memory_store.engine import Durability
from memory_store.errors import StoreUnavailableError

HELD, USED = {COST: 5, CALLS: 1}, {COST: 3, CALLS: 1}
PAIRS_AFTERWARDS = 50
PAIRS_MAX = 100_000


def main() -> None:
    """Fill the disk, say so, and go on when told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--growth-bytes-max", type=int)
    arguments = parser.parse_args()
    # The kernel would end the process; we want the error that it would get otherwise.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    anyio.run(_fill, arguments.folder, arguments.growth_bytes_max)


async def _fill(folder: Path, growth_bytes_max: int | None) -> None:
    async with SqliteFactory(durability=Durability.POWER).open(folder) as stage:
        await stage.put_budget(budget_of("b", "acme", ScopeKind.TENANT, {COST: 10**9}))
        assert await _pairs(stage, 0, PAIRS_AFTERWARDS) == PAIRS_AFTERWARDS
        if growth_bytes_max is not None:
            _limit_growth(folder, growth_bytes_max)
        done = PAIRS_AFTERWARDS + await _pairs(stage, PAIRS_AFTERWARDS, PAIRS_MAX)
        _say({"settled": done, "faults": faults_of(await stage.facts())})

        await anyio.to_thread.run_sync(sys.stdin.readline)
        if growth_bytes_max is not None:
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        more = await _pairs(stage, PAIRS_MAX, PAIRS_AFTERWARDS)
        await stage.ledger.expire_due(now_ms=2**60, all_live=True)
        facts = await stage.facts()
        (standing,) = facts.accounts.values()
        _say({"more": more, "faults": faults_of(facts), "books": list(standing)})


def _limit_growth(folder: Path, growth_bytes_max: int) -> None:
    largest = max(file.stat().st_size for file in folder.rglob("*"))
    limits = (largest + growth_bytes_max, resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def _pairs(stage: SqlStage, first: int, count: int) -> int:
    """Admit and settle up to `count` calls; return how many settlements were acknowledged."""
    chain = chain_of("acme", "ada", "one")
    for number in range(first, first + count):
        asked = request_of(str(number), chain, HELD, now_ms=1_000_000 + number, expires_at_ms=2**59)
        record = record_for(asked.call_id, chain, ended_at_ms=1_000_000, usage=usage_of(USED))
        try:
            assert isinstance(await stage.ledger.admit(asked), Reserved)
            await stage.ledger.settle(asked.reservation_id, usage_of(USED), record)
        except StoreUnavailableError:
            return number - first
    return count


def _say(said: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
