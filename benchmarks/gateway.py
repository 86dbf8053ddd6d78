"""Flyball beside other MCP gateways and plain relays, in front of one and the same server.

Rounds go from party to party, so that a drift of the machine's speed hits all. Every answer
is checked; the calls that Flyball recorded are counted against those that were made. CPU is
that of the party's whole process tree.
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
from gateway_parties import FLYBALL, HERE, PARTIES, UPSTREAM, Party, Place
from measure import machine, percentiles, spread
from processes import START_SECONDS_MAX, cpu_s, free_port, wait_for

CALLERS = (1, 16, 64)
MANY_TOOLS = 500


@dataclass
class Running:
    """A party that listens, and what was measured of it."""

    party: Party
    url: str
    process: psutil.Process
    folder: Path
    calls: int = 0
    rows: dict[int, list[dict[str, float]]] = field(default_factory=dict)

    def cpu_s(self) -> float:
        """Return what its processes have used so far."""
        return cpu_s(self.process)


def main() -> None:
    """Print the tables."""
    options = _options()
    peers = Path(options.peers).resolve()
    wanted = [party for party in PARTIES if not options.only or party.name.lower() in options.only]
    print(machine())
    with ExitStack() as stack:
        behind = stack.enter_context(_upstream(0))
        running = [behind] if not options.only or "direct" in options.only else []
        for party in wanted:
            if party.is_there(peers):
                running.append(stack.enter_context(_started(party, peers, behind.url)))
            else:
                print(f"{party.name} is not in {options.peers}; there: {party.install}")
        for _ in range(options.rounds):
            for callers in CALLERS:
                for one in running:
                    _measure(one, callers, options.seconds)
        _show(running)
        for one in running:
            if one.party.is_ours:
                _check_records(one)
    if FLYBALL in wanted:
        _measure_lists(options)


def _measure(one: Running, callers: int, seconds: float) -> None:
    before = one.cpu_s()
    found = _load(one.party, one.url, callers=callers, seconds=seconds)
    count = len(found["samples_ms"])
    # Each caller makes one call before the clock starts.
    one.calls += count + callers
    middle, high = percentiles(found["samples_ms"])
    row = {
        "p50": middle,
        "p99": high,
        "rate": count / found["took_s"],
        "cpu": (one.cpu_s() - before) * 1000 / (count + callers),
        "load": os.getloadavg()[0],
    }
    one.rows.setdefault(callers, []).append(row)


def _load(
    party: Party, url: str, *, callers: int, seconds: float, more: tuple[str, ...] = ()
) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "gateway_load.py"), "--url", url, "--era", party.era]
    command += ["--tool", party.tool, "--callers", str(callers), "--seconds", str(seconds), *more]
    for header in party.headers:
        command += ["--header", header]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{party.name}: {done.stderr[-2_000:]}"
    found: dict[str, Any] = json.loads(done.stdout)
    assert not found["errors"], f"{party.name}: {found['errors']}"
    return found


def _show(running: list[Running]) -> None:
    """Print each party's figures, and how its rate and CPU stand to Flyball's."""
    ours = next((one for one in running if one.party.is_ours), None)
    for callers in CALLERS:
        print(f"\n{callers} at once\n")
        print(
            "| gateway | p50 ms | p99 ms | calls/s | CPU ms/call | rate of Flyball's | "
            "CPU of Flyball's |"
        )
        print("|---|---|---|---|---|---|---|")
        for one in running:
            rows = one.rows[callers]
            shown = [spread([row[key] for row in rows]) for key in ("p50", "p99", "rate")]
            shown.append(spread([row["cpu"] for row in rows], digits=2))
            if ours is not None:
                shown += [_ratio(one, ours, callers, key) for key in ("rate", "cpu")]
            print(f"| {one.party.name} | {' | '.join(shown)} |", flush=True)
    loads = [row["load"] for one in running for rows in one.rows.values() for row in rows]
    print(f"\nload {min(loads):.1f} to {max(loads):.1f}")


def _ratio(one: Running, ours: Running, callers: int, key: str) -> str:
    """Return the median over rounds of how the party stands to us in the same round."""
    pairs = zip(one.rows[callers], ours.rows[callers], strict=True)
    return f"{statistics.median(theirs[key] / mine[key] for theirs, mine in pairs):.2f}"


def _check_records(one: Running) -> None:
    """Fail if Flyball recorded other calls than were made."""
    [path] = (one.folder / "state").glob("*.db")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        [(recorded,)] = database.execute("SELECT count(*) FROM calls WHERE status = 'ok'")
    assert recorded == one.calls, f"{recorded} calls recorded, {one.calls} made"
    print(f"\nchecked: {recorded} calls were made and recorded, each answer was its own")


def _measure_lists(options: argparse.Namespace) -> None:
    """Print how long the list of many tools takes."""
    with _upstream(MANY_TOOLS) as behind, _started(FLYBALL, Path(), behind.url) as one:
        last = f"echo__tool_{MANY_TOOLS - 1}"
        more = ("--method", "tools/list", "--expect", last)
        rows = []
        for _ in range(options.rounds):
            before = one.cpu_s()
            found = _load(FLYBALL, one.url, callers=1, seconds=options.seconds, more=more)
            cpu_ms = (one.cpu_s() - before) * 1000 / len(found["samples_ms"])
            rows.append((*percentiles(found["samples_ms"]), cpu_ms))
        p50, p99, cpu = (spread(column, digits=2) for column in zip(*rows, strict=True))
        print(f"\ntools/list of {MANY_TOOLS} tools: p50 {p50} ms, p99 {p99} ms, CPU {cpu} ms")


@contextmanager
def _upstream(more: int) -> Iterator[Running]:
    port = free_port()
    command = (sys.executable, str(UPSTREAM), str(port), str(more))
    party = Party(name="direct", command=lambda *_: command)
    place = Place(port=port, folder=Path(), upstream="")
    with _listening(party, command, place, dict(os.environ), Path()) as one:
        yield one


@contextmanager
def _started(party: Party, peers: Path, upstream: str) -> Iterator[Running]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Place(port=free_port(), folder=Path(folder), upstream=upstream)
        command = party.command(peers, place)
        environment = {**os.environ, **party.environment, **party.settings(place.folder)}
        with _listening(party, command, place, environment, peers) as one:
            yield one


@contextmanager
def _listening(
    party: Party, command: Any, place: Place, environment: dict[str, str], peers: Path
) -> Iterator[Running]:
    port, folder, path = place.port, place.folder, "/mcp"
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(port, process, party.name)
            if party.register is not None:
                path, header = party.register(peers, port, folder, place.upstream)
                party = replace(party, headers=(*party.headers, header))
            url = f"http://127.0.0.1:{port}{path}"
            one = Running(party, url, psutil.Process(process.pid), folder)
            _wait_until_it_answers(one)
            yield one
        finally:
            process.terminate()


def _wait_until_it_answers(one: Running) -> None:
    """Return once a call succeeds: some listen before they have met the server behind them."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            found = _load(one.party, one.url, callers=1, seconds=0.2)
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            one.calls += len(found["samples_ms"]) + 1
            return


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=".peers", help="the folder with the other gateways")
    parser.add_argument("--only", type=str.lower, action="append", help="a party's name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    return parser.parse_args()


if __name__ == "__main__":
    main()
