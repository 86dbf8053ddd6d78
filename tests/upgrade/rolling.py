"""A rollout: an earlier release works on a server, its schema is moved, and this one joins."""

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

import anyio
from contracts.builders import COST, TENANT
from upgrade.releases import ROOT, command_on, unpack, written

from memory_store.conservation import Conservation
from memory_store.engine import Durability
from memory_store.store import migrate_store, open_store

_SECONDS_MAX = 200
# What the releases charge for a call of `work`.
CHARGED = 2


def rolled_over(revision: str, url: str, folder: Path) -> dict[str, int]:
    """Return how many calls each side made; asserts that none failed and that all are counted."""
    code = folder / "code"
    unpack(revision, code)
    before = written(code, folder / "before", url)
    with ExitStack() as stack:
        old = _working(stack, code, folder / "old", url)
        done = migrate_store(folder / "migrating", url=url)
        assert done.can_start
        new = _working(stack, ROOT, folder / "new", url)
        calls = {"old": _ended(old), "new": _ended(new)}
    after = migrate_store(folder / "migrating", url=url, with_post=True)
    assert not after.pending
    used = anyio.run(_used, folder / "after", url)
    assert used == _used_before(before) + CHARGED * sum(calls.values())
    return calls


def _working(stack: ExitStack, code: Path, state_dir: Path, url: str) -> subprocess.Popen[str]:
    words, environment = command_on(code, "work", str(state_dir), url)
    process = stack.enter_context(
        subprocess.Popen(
            words,
            env=environment,
            cwd=code,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _ended(process: subprocess.Popen[str]) -> int:
    said, _ = process.communicate("", timeout=_SECONDS_MAX)
    assert process.returncode == 0
    return int(json.loads(said)["calls"])


def _used_before(before: dict[str, object]) -> int:
    balances = before["balances"]
    assert isinstance(balances, list)
    return next(int(used) for unit, used, _ in balances if unit == COST.value)


async def _used(state_dir: Path, url: str) -> int:
    async with open_store(state_dir, url=url, durability=Durability.PROCESS) as store:
        assert await store.reader.run(Conservation().breaches) == []
        views = await store.ledger.balances(tenant=TENANT, now_ms=2_000)
    return next(view.used for view in views if view.unit is COST)
