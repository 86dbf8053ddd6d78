"""What a search and a write of the memory take over HTTP, through the whole of a sidecar.

    python -m benchmarks.memory_service [--items 2000] [--calls 400] [--json]

A sidecar of one process on SQLite is started, an agent keeps so many notes, and then searches and
writes, one at a time and sixteen at once. Counted are calls a second, how long one takes, and the
CPU of the sidecar for each. Every search must find the note that it asks for among its hits, and
every write must be found byte for byte afterwards.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import anyio
import httpx
import psutil

from benchmarks.measure import machine, percentiles
from benchmarks.processes import cpu_s, free_port, wait_for, wait_for_text

AT_ONCE = (1, 16)
_PLACES = ("harbour", "warehouse", "airport", "market", "station", "library", "museum", "bakery")
_THINGS = ("door code", "invoice", "backup", "licence", "roster", "lease", "sensor", "contract")
_CONFIG = """
[listen]
agents = "127.0.0.1:{agents}"
admin = "127.0.0.1:{admin}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What calls of one kind took."""

    what: str
    at_once: int
    calls_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float

    def line(self) -> str:
        """Return the figures as one line of the table."""
        return (
            f"{self.what:8} c={self.at_once:<3} {self.calls_per_s:7.0f}/s  p50 {self.p50_ms:6.1f} "
            f"ms  p99 {self.p99_ms:6.1f} ms  CPU {self.cpu_ms:5.2f} ms"
        )


def note_of(number: int) -> str:
    """Return the note of a number, which nothing else says."""
    place, thing = _PLACES[number % len(_PLACES)], _THINGS[number // 8 % len(_THINGS)]
    return f"The {thing} of the {place} has the mark zq{number}, agreed in meeting {number // 3}."


async def timed(
    what: str,
    call: Callable[[int], Awaitable[None]],
    *,
    at_once: int,
    calls: int,
    sidecar: psutil.Process,
) -> Figures:
    """Return what so many calls took, so many at once."""
    samples: list[float] = []
    numbers = iter(range(calls))

    async def caller() -> None:
        for number in numbers:
            began = time.perf_counter()
            await call(number)
            samples.append((time.perf_counter() - began) * 1000)

    began, cpu = time.perf_counter(), cpu_s(sidecar)
    async with anyio.create_task_group() as tasks:
        for _ in range(at_once):
            tasks.start_soon(caller)
    wall_s, used_s = time.perf_counter() - began, cpu_s(sidecar) - cpu
    p50, p99 = percentiles(samples)
    return Figures(
        what=what,
        at_once=at_once,
        calls_per_s=calls / wall_s,
        p50_ms=p50,
        p99_ms=p99,
        cpu_ms=used_s * 1000 / calls,
    )


async def measured(
    client: httpx.AsyncClient, sidecar: psutil.Process, *, items: int, calls: int
) -> list[Figures]:
    """Return the figures of searches and writes."""
    written: dict[str, str] = {}

    async def write(text: str) -> None:
        answer = await client.post("experiences", json={"content": text})
        assert answer.status_code == HTTPStatus.CREATED, answer.text
        written[answer.json()["index"]] = text

    async def search(number: int) -> None:
        wanted = note_of(number * 7 % items)
        answer = await client.post("search", json={"query": wanted[:-20], "limit": 5})
        assert answer.status_code == HTTPStatus.OK, answer.text
        assert wanted in {hit["text"] for hit in answer.json()["hits"]}, wanted

    async with anyio.create_task_group() as tasks:
        limiter = anyio.CapacityLimiter(16)

        async def fill(number: int) -> None:
            async with limiter:
                await write(note_of(number))

        for number in range(items):
            tasks.start_soon(fill, number)
    figures = []
    for at_once in AT_ONCE:
        figures.append(await timed("search", search, at_once=at_once, calls=calls, sidecar=sidecar))
        base = items + at_once * calls

        async def more(number: int, base: int = base) -> None:
            await write(note_of(base + number))

        figures.append(await timed("write", more, at_once=at_once, calls=calls, sidecar=sidecar))
    for index in list(written)[:: max(1, len(written) // 100)]:
        content = await client.get(f"experiences/{index}/content")
        assert content.content == written[index].encode(), index
    return figures


async def main() -> None:
    """Start a sidecar, measure, and print."""
    options = _options()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = free_port()
        config = folder / "flyball.toml"
        config.write_text(_CONFIG.format(agents=port, admin=free_port()), encoding="utf-8")
        state = folder / "state"
        command = [sys.executable, "-m", "runtime", "up", "--json", "--config", str(config)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([*command, "--state", str(state)], stdout=log, stderr=log)
        try:
            wait_for(port, process, "the sidecar")
            token = wait_for_text(state / "agent.token").strip()
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}/memory/v1/",
                headers={"Authorization": f"Bearer {token}", "Flyball-Session": "s"},
                timeout=60,
            ) as client:
                figures = await measured(
                    client, psutil.Process(process.pid), items=options.items, calls=options.calls
                )
        finally:
            process.terminate()
            process.wait(timeout=30)
    if options.json:
        print(json.dumps([{name: getattr(one, name) for name in one.__slots__} for one in figures]))
        return
    print(machine())
    for one in figures:
        print(one.line())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    anyio.run(main)
