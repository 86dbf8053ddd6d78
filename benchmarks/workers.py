"""Flyball with one, two and more worker processes, in front of one and the same server.

    python benchmarks/workers.py --workers 1 --workers 2 --workers 4 --rounds 3

Load generator, upstream server and all processes share the machine's cores: where there are few,
the rate says what this machine does, and the CPU of each kind of process what more cores would.
Rounds go from one to the next, so that a drift of the machine's speed hits all.
"""

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
from gateway import Running, _check_records, _load, _started, _upstream
from gateway_parties import FLYBALL, Party, Place
from measure import machine, percentiles, spread

CALLERS = 64


def main() -> None:
    """Print the table."""
    options = _options()
    print(f"{machine()}\n")
    with ExitStack() as stack:
        behind = stack.enter_context(_upstream(0))
        running = [
            stack.enter_context(_started(_party(workers), Path(), behind.url))
            for workers in options.workers
        ]
        for _ in range(options.rounds):
            for one in running:
                _measure(one, options)
        _show(running, options.callers)
        for one in running:
            _check_records(one)
    if options.json:
        rows = {one.party.name: one.rows[options.callers] for one in running}
        print(json.dumps(rows))


def _party(workers: int) -> Party:
    def command(peers: Path, place: Place) -> Sequence[str]:
        return (*FLYBALL.command(peers, place), "--workers", str(workers))

    name = "1 process" if workers == 1 else f"{workers} workers and the keeper"
    return Party(name=name, command=command, tool=FLYBALL.tool, is_ours=True)


def _measure(one: Running, options: argparse.Namespace) -> None:
    before = _cpu_s(one.process)
    found = _load(one.party, one.url, callers=options.callers, seconds=options.seconds)
    count = len(found["samples_ms"])
    # Each caller makes one call before the clock starts.
    made = count + options.callers
    one.calls += made
    middle, high = percentiles(found["samples_ms"])
    used = {
        process: (now - before.get(process, 0.0)) * 1000 / made
        for process, now in _cpu_s(one.process).items()
    }
    workers = [cpu for process, cpu in used.items() if "worker" in process]
    row = {
        "p50": middle,
        "p99": high,
        "rate": count / found["took_s"],
        "cpu": sum(used.values()),
        "keeper_cpu": sum(cpu for process, cpu in used.items() if "keeper" in process),
        "busiest": max(workers) / sum(workers) if workers else 1.0,
        "load": os.getloadavg()[0],
    }
    one.rows.setdefault(options.callers, []).append(row)


def _cpu_s(parent: psutil.Process) -> dict[str, float]:
    """Return what each process has used so far, by what it is."""
    used = {}
    for process in [parent, *parent.children(recursive=True)]:
        words = process.cmdline()
        role = next((word for word in words if word in {"keeper", "worker"}), "parent")
        used[f"{role} {process.pid}"] = sum(process.cpu_times()[:2])
    return used


def _show(running: list[Running], callers: int) -> None:
    print(f"{callers} callers at once\n")
    print(
        "| | p50 ms | p99 ms | calls/s | of one process | CPU ms/call in all | of it the keeper | "
        "share of the busiest worker |\n|---|---|---|---|---|---|---|---|"
    )
    first = running[0].rows[callers]
    for one in running:
        rows = one.rows[callers]
        shown = [spread([row[key] for row in rows]) for key in ("p50", "p99", "rate")]
        pairs = zip(rows, first, strict=True)
        shown.append(f"{statistics.median(mine['rate'] / its['rate'] for mine, its in pairs):.2f}")
        shown += [
            spread([row[key] for row in rows], digits=2) for key in ("cpu", "keeper_cpu", "busiest")
        ]
        print(f"| {one.party.name} | {' | '.join(shown)} |", flush=True)
    loads = [row["load"] for one in running for row in one.rows[callers]]
    print(f"\nload {min(loads):.1f} to {max(loads):.1f}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, action="append", help="how many; may be repeated")
    parser.add_argument("--callers", type=int, default=CALLERS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.workers = options.workers or [1, 2, 4]
    return options


if __name__ == "__main__":
    main()
