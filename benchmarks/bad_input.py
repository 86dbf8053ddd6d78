"""A healthy client's calls while thousands of connections are held by clients that mean no good.

Rounds with and without each attack follow one another, so that a drift of the machine's speed
hits both. Every answer is checked. The attackers are a process of their own, on the same machine:
what they take of its processors slows the healthy client too, whatever the sidecar does.
"""

import argparse
import http.client
import json
import multiprocessing
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path

import psutil
from bad_input_attack import ATTACKS, attack
from measure import machine, percentiles, spread

HERE = Path(__file__).parent
CONFIG = """
[listen]
agents = "127.0.0.1:0"
admin = "127.0.0.1:0"
[store]
durability = "process"
[auth]
mode = "none"
"""
ASKED = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "governor_status",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "healthy", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "governor_status",
}
PAUSE_SECONDS = 0.005
SETTLE_SECONDS = 3.0
_MIB = 1024 * 1024


@dataclass
class Figures:
    """What the healthy client saw in each round, and the sidecar's memory."""

    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)
    open_at_most: int = 0


def main() -> None:
    """Print a table, or one JSON object."""
    options = _options()
    figures = {name: Figures() for name in ("none", *options.attacks)}
    with tempfile.TemporaryDirectory() as folder, _sidecar(Path(folder)) as (process, port):
        _round(port, seconds=2.0)  # until everything is loaded
        for _ in range(options.rounds):
            for name in options.attacks:
                _note(figures["none"], process, _round(port, seconds=options.seconds))
                with _attacked(name, port, options.connections) as opened:
                    _note(figures[name], process, _round(port, seconds=options.seconds))
                    figures[name].open_at_most = max(figures[name].open_at_most, opened.value)
                time.sleep(SETTLE_SECONDS)
    _show(figures, options)


def _round(port: int, *, seconds: float) -> list[float]:
    """Return how long each call of one client took, in milliseconds."""
    body, samples = json.dumps(ASKED), []
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        began = time.perf_counter()
        client.request("POST", "/mcp", body=body, headers=HEADERS)
        answer = json.loads(client.getresponse().read())
        samples.append((time.perf_counter() - began) * 1e3)
        if answer["result"].get("isError"):
            raise SystemExit(f"the call failed: {answer}")
        time.sleep(PAUSE_SECONDS)
    client.close()
    return samples


def _note(figures: Figures, process: psutil.Process, samples: list[float]) -> None:
    p50, p99 = percentiles(samples)
    figures.p50_ms.append(p50)
    figures.p99_ms.append(p99)
    figures.rss_mib.append(process.memory_info().rss / _MIB)


@contextmanager
def _attacked(name: str, port: int, connections: int) -> "Iterator[Synchronized[int]]":
    """Hold `connections` in another process while the block runs; yield how many were open."""
    spawn = multiprocessing.get_context("spawn")
    opened, stop, ready = spawn.Value("i", 0), spawn.Event(), spawn.Event()
    terms = {"port": port, "connections": connections, "opened": opened}
    attacker = spawn.Process(
        target=attack,
        args=(name,),
        kwargs={**terms, "ready": ready, "stop": stop},
    )
    attacker.start()
    try:
        _await(ready)
        yield opened
    finally:
        stop.set()
        attacker.join(30)


def _await(ready: Event) -> None:
    if not ready.wait(120):
        raise SystemExit("the attackers did not get their connections")


@contextmanager
def _sidecar(folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    config = folder / "flyball.toml"
    config.write_text(CONFIG, encoding="utf-8")
    command = [sys.executable, "-m", "runtime", "up", "--json", "--config", str(config)]
    with (folder / "log").open("w") as log:
        started = subprocess.Popen(
            [*command, "--state", str(folder / "state")],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert started.stdout is not None, "it was asked for"
        readable, _, _ = select.select([started.stdout], [], [], 60)
        line = started.stdout.readline() if readable else ""
        if not line:
            raise SystemExit((folder / "log").read_text())
        url = json.loads(line)["agents"]
        yield psutil.Process(started.pid), int(url.rpartition(":")[2].partition("/")[0])
    finally:
        started.terminate()
        started.wait(60)


def _show(figures: dict[str, Figures], options: argparse.Namespace) -> None:
    calm = statistics.median(figures["none"].p99_ms)
    if options.json:
        shown = {
            name: {
                "p50_ms": statistics.median(one.p50_ms),
                "p99_ms": statistics.median(one.p99_ms),
                "p99_ratio": statistics.median(one.p99_ms) / calm,
                "rss_mib": max(one.rss_mib),
                "open_at_most": one.open_at_most,
            }
            for name, one in figures.items()
        }
        print(json.dumps({"machine": machine(), "connections": options.connections, **shown}))
        return
    print(machine())
    print(f"{options.connections} connections, {options.rounds} rounds of {options.seconds:.0f} s")
    for name, one in figures.items():
        print(
            f"{name:12} p50 {spread(one.p50_ms, 2)} ms, p99 {spread(one.p99_ms, 2)} ms, "
            f"p99 ratio {statistics.median(one.p99_ms) / calm:.2f}, "
            f"RSS at most {max(one.rss_mib):.0f} MiB, open at most {one.open_at_most}"
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--attacks", nargs="+", default=list(ATTACKS), choices=ATTACKS)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
