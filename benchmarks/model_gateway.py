"""Flyball beside other model gateways and naive proxies, in front of one and the same server.

Rounds go from party to party, so that a drift of the machine's speed hits all. Every answer
is checked, whole or streamed; what Flyball recorded and settled is held against what was
answered. CPU is that of the party's whole process tree.
"""

import argparse
import os
import sqlite3
import statistics
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import model_race
from measure import machine, percentiles
from model_parties import CHAT, COST_MICROUSD, PARTIES
from model_running import DIRECT, JSON, PACE_MS, PACED, SSE, Row, Running, load, started, upstream
from model_tables import show, summarise
from model_upstream import INPUT_TOKENS, OUTPUT_TOKENS
from processes import cpu_s, rss_mib

CALLERS = (1, 16, 64)
WARM_SECONDS = 0.5


def main() -> None:
    """Print the tables, the ratios and what a race spends."""
    options = _options()
    peers = Path(options.peers).resolve()
    print(machine())
    if not options.race_only:
        _compare(options, peers)
    if not options.no_race:
        with upstream() as behind:
            model_race.main(peers, behind.url.removesuffix(CHAT))


def _compare(options: argparse.Namespace, peers: Path) -> None:
    wanted = [party for party in PARTIES if not options.only or party.name.lower() in options.only]
    with ExitStack() as stack:
        behind = stack.enter_context(upstream())
        running = [behind]
        for party in wanted:
            if party.is_there(peers):
                begun = started(party, peers, behind.url.removesuffix(CHAT))
                running.append(stack.enter_context(begun))
                print(f"{party.name}: {party.remark}", flush=True)
            else:
                print(f"{party.name} is not in {options.peers}; there: {party.install}")
        _run_rounds(running, options)
        for one in running:
            if one.party.is_ours:
                _check_books(one)


def _run_rounds(running: list[Running], options: argparse.Namespace) -> None:
    """Measure each party in each round, and print what came of it."""
    began = time.monotonic()
    cells = [(kind, callers) for kind in options.kind for callers in options.callers]
    if SSE in options.kind:
        cells.append((PACED, 1))
    for one in running:
        _note(one, load(one, "--seconds", str(WARM_SECONDS)))
    for at in range(options.rounds):
        for kind, callers in cells:
            for one in running:
                row = _measured(one, kind, callers, options.seconds)
                if row is not None:
                    one.rows.setdefault((kind, callers), {})[at] = row
    for kind, callers in cells:
        show(running, kind, callers)
    summarise(running)
    print(f"\n{options.rounds} rounds took {time.monotonic() - began:.0f} s")


def _measured(one: Running, kind: str, callers: int, seconds: float) -> Row | None:
    before = cpu_s(one.process)
    more = [] if kind == JSON else ["--stream"]
    if kind == PACED:
        more += ["--pace", str(PACE_MS)]
    found = load(one, "--callers", str(callers), "--seconds", str(seconds), *more)
    count = len(found["samples_ms"])
    # Each caller makes one call before the clock starts.
    _note(one, found)
    if not count:
        return None
    middle, high = percentiles(found["samples_ms"])
    one.rss_mib = max(one.rss_mib, rss_mib(one.process))
    return {
        "p50": middle,
        "p99": high,
        "first": statistics.median(found["first_ms"]),
        "rate": count / found["took_s"],
        "cpu": (cpu_s(one.process) - before) * 1000 / (count + found["warmed"]),
        "load": os.getloadavg()[0],
    }


def _note(one: Running, found: Mapping[str, Any]) -> None:
    """Count what was answered, and what was not as it should be: none of ours may be that."""
    one.answered += len(found["samples_ms"]) + found["warmed"]
    one.errors += found["errors"]
    one.error = one.error or found["error"]
    assert not (found["errors"] and (one.party.is_ours or one.party is DIRECT)), found["error"]


def _check_books(one: Running) -> None:
    """Fail if Flyball recorded, charged or still holds other than what was answered."""
    [path] = (one.folder / "state").glob("*.db")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        [recorded] = database.execute(
            "SELECT count(*), sum(cost_microusd) FROM calls WHERE status = 'ok'"
        )
        booked = dict(database.execute("SELECT unit, sum(settled) FROM balances GROUP BY unit"))
        [(held,)] = database.execute("SELECT sum(reserved) FROM balances")
    answered = one.answered
    assert recorded == (answered, answered * COST_MICROUSD), (recorded, answered)
    expected = {
        "cost_microusd": COST_MICROUSD,
        "input_tokens": INPUT_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
    }
    for unit, each in expected.items():
        assert booked[unit] == answered * each, (unit, booked[unit], answered * each)
    assert held == 0, f"{held} is still held"
    print(
        f"\nchecked: {answered} calls were answered, recorded and settled at "
        f"{COST_MICROUSD} micro-dollars each; nothing is held; each answer was its own"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=".peers", help="the folder with the other gateways")
    parser.add_argument("--only", type=str.lower, action="append", help="a party's name")
    parser.add_argument("--kind", choices=[JSON, SSE], action="append", help="of answers")
    parser.add_argument("--callers", type=int, action="append", help="at once: 1, 16 and 64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--no-race", action="store_true", help="leave the budget race out")
    parser.add_argument("--race-only", action="store_true", help="run the budget race alone")
    options = parser.parse_args()
    options.kind = options.kind or [JSON, SSE]
    options.callers = options.callers or CALLERS
    return options


if __name__ == "__main__":
    main()
