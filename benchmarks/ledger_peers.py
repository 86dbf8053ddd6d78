"""Simpler ledgers, for comparison: one transaction per operation, and two rate-limit libraries.

The naive build is what one writes first: a table of balances, a table of holds, and BEGIN
IMMEDIATE around each operation on one connection. `limits` and `pyrate-limiter` count calls
against one limit; they hold no money, keep nothing durable in memory and know no settlement, so
a pair is one acquired slot. Both are measured where they are installed.
"""

import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

LEVELS = ("tenant", "agent", "session", "sub_session")
UNITS = ("tool_calls", "cost_microusd", "wall_ms")
AMOUNTS = {"tool_calls": 1, "cost_microusd": 10, "wall_ms": 500}
LIMIT = 2**40
_SCHEMA = """
CREATE TABLE balance (level TEXT, unit TEXT, settled INTEGER, reserved INTEGER,
                      PRIMARY KEY (level, unit)) WITHOUT ROWID;
CREATE TABLE hold (id TEXT PRIMARY KEY, state TEXT);
CREATE TABLE hold_line (id TEXT, level TEXT, unit TEXT, amount INTEGER,
                        PRIMARY KEY (id, level, unit)) WITHOUT ROWID;
"""

# Reserve, settle, and the check that as many pairs were charged as were done.
Operations = tuple[Callable[[str], None], Callable[[str], None], Callable[[int], None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A ledger to compare with: `start` gives its pair of operations and its check."""

    name: str
    start: Callable[[Path], Operations]


class Naive:
    """One connection under a lock, one durable transaction for each operation."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path / "naive.db", isolation_level=None, check_same_thread=False)
        self._db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + _SCHEMA)
        rows = [(level, unit) for level in LEVELS for unit in UNITS]
        self._db.executemany("INSERT INTO balance VALUES (?, ?, 0, 0)", rows)

    def reserve(self, name: str) -> None:
        """Hold the amounts on every level, or raise."""
        with self._lock:
            run = self._db.execute
            run("BEGIN IMMEDIATE")
            for level in LEVELS:
                for unit in UNITS:
                    changed = run(
                        "UPDATE balance SET reserved = reserved + ? WHERE level = ? AND unit = ?"
                        " AND settled + reserved + ? <= ?",
                        (AMOUNTS[unit], level, unit, AMOUNTS[unit], LIMIT),
                    )
                    assert changed.rowcount == 1, "the budget is spent"
                    line = (name, level, unit, AMOUNTS[unit])
                    run("INSERT INTO hold_line VALUES (?, ?, ?, ?)", line)
            run("INSERT INTO hold VALUES (?, 'held')", (name,))
            run("COMMIT")

    def settle(self, name: str) -> None:
        """Charge what was held."""
        with self._lock:
            run = self._db.execute
            run("BEGIN IMMEDIATE")
            lines = run("SELECT level, unit, amount FROM hold_line WHERE id = ?", (name,))
            for level, unit, amount in lines.fetchall():
                run(
                    "UPDATE balance SET reserved = reserved - ?, settled = settled + ?"
                    " WHERE level = ? AND unit = ?",
                    (amount, amount, level, unit),
                )
            run("UPDATE hold SET state = 'settled' WHERE id = ?", (name,))
            run("COMMIT")

    def check(self, pairs: int) -> None:
        """Assert that exactly `pairs` were charged."""
        rows = self._db.execute(
            "SELECT DISTINCT settled, reserved FROM balance WHERE unit = ?", ("tool_calls",)
        ).fetchall()
        assert rows == [(pairs, 0)], rows
        self._db.close()


def _naive(path: Path) -> Operations:

    build = Naive(path)
    return build.reserve, build.settle, build.check


def _limits(_: Path) -> Operations:

    from limits import RateLimitItemPerYear  # noqa: PLC0415 - only where it is installed
    from limits.storage import MemoryStorage  # noqa: PLC0415
    from limits.strategies import FixedWindowRateLimiter  # noqa: PLC0415

    limiter, item = FixedWindowRateLimiter(MemoryStorage()), RateLimitItemPerYear(LIMIT)

    def reserve(_: str) -> None:
        assert limiter.hit(item, "hot"), "the limit is reached"

    def check(pairs: int) -> None:
        assert LIMIT - limiter.get_window_stats(item, "hot").remaining == pairs

    return reserve, _nothing, check


def _pyrate(_: Path) -> Operations:

    from pyrate_limiter import (  # noqa: PLC0415 - only where it is installed
        Duration,
        InMemoryBucket,
        Limiter,
        Rate,
    )

    bucket = InMemoryBucket([Rate(10**9, Duration.HOUR)])
    limiter = Limiter(bucket)

    def reserve(_: str) -> None:
        assert limiter.try_acquire("hot"), "the limit is reached"

    def check(pairs: int) -> None:
        assert bucket.count() == pairs

    return reserve, _nothing, check


def _nothing(_: str) -> None:
    """Settle nothing: the library has no such thing."""


PEERS = [
    Peer(name="naive, one transaction per operation, power", start=_naive),
    *(
        Peer(name=f"{name}, in memory, calls only", start=start)
        for name, module, start in (
            ("limits", "limits", _limits),
            ("pyrate-limiter", "pyrate_limiter", _pyrate),
        )
        if find_spec(module) is not None
    ),
]


def run_peer(peer: Peer, path: Path, *, clients: int, seconds: float) -> tuple[int, list[float]]:
    """Return how many pairs were done, and how long each reservation took, in ms."""
    reserve, settle, check = peer.start(path)
    ends = time.perf_counter() + seconds
    samples: list[list[float]] = [[] for _ in range(clients)]

    def client(number: int) -> None:
        count = 0
        while time.perf_counter() < ends:
            count += 1
            name = f"{number}-{count}"
            began = time.perf_counter()
            reserve(name)
            samples[number].append((time.perf_counter() - began) * 1000)
            settle(name)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = [sample for of_one in samples for sample in of_one]
    check(len(took))
    return len(took), took
