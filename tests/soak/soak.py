"""A sidecar under steady load for long: what it holds must not grow, what it answers not slow.

Calls of many sessions, some above their budgets, scrapes and listings go on for minutes; every
few seconds it is noted what the process holds. A soak can be taken up again: the next chunk goes
on with the same store, and is held against the first one's figures.
"""

import json
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import psutil
from scenarios.process import SidecarProcess

from memory_store.conservation import Conservation
from memory_store.store import DATABASE_NAME, open_store

CONFIG = """
[[budget]]
id = "each"
scope = "session"
limits = { tool_calls = 12 }
[[budget]]
id = "all"
scope = "tenant"
limits = { tool_calls = 1000000000 }
"""
CALLERS, CALLS_PER_S, CALLS_OF_A_SESSION = 8, 40.0, 16
SAMPLE_S = 5.0
# What may be there more at the end than after the warm-up.
RSS_SHARE_MAX, RSS_MIB_MAX, FDS_MAX, WAL_MIB_MAX, DRIFT_MAX = 1.10, 24.0, 12, 64.0, 1.5
# Above this the machine has more to do than it can, and its p99 is not the sidecar's.
BUSY_MS_MAX = 10.0
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the sidecar held at one time, and how calls went since the time before."""

    rss_mib: float
    fds: int
    wal_mib: float
    p99_ms: float
    control_ms: float
    """The same of a byte that a bare process sends back: the drift of the machine itself."""


@dataclass
class Soak:
    """One chunk: the sidecar, and what was seen."""

    folder: Path
    seconds: float
    seed: int
    samples: list[Sample] = field(default_factory=list)
    ran: int = 0
    denied: int = 0
    _recent_ms: list[float] = field(default_factory=list)
    _control_ms: list[float] = field(default_factory=list)

    async def run(self) -> dict[str, int]:
        """Return the figures of a chunk; what grows or slows ends it with an AssertionError."""
        sidecar = SidecarProcess(folder=self.folder, extra=CONFIG)
        await anyio.to_thread.run_sync(sidecar.start)
        try:
            async with anyio.create_task_group() as tasks:
                for number in range(CALLERS):
                    tasks.start_soon(self._call, sidecar, random.Random(self.seed + number))
                tasks.start_soon(self._read, sidecar)
                tasks.start_soon(self._control)
                await self._watch(sidecar)
                tasks.cancel_scope.cancel()
        finally:
            await anyio.to_thread.run_sync(sidecar.stop)
        await self._check_books(sidecar)
        return self._judged()

    async def _call(self, sidecar: SidecarProcess, rng: random.Random) -> None:
        headers = {
            "Authorization": f"Bearer {sidecar.token('agent')}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": _META["io.modelcontextprotocol/protocolVersion"],
            "Mcp-Method": "tools/call",
            "Mcp-Name": "worker__echo",
        }
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            number = 0
            while True:
                session = f"soak-{rng.randrange(2**40)}"
                for _ in range(CALLS_OF_A_SESSION):
                    await anyio.sleep(rng.expovariate(CALLS_PER_S / CALLERS))
                    number += 1
                    began = time.perf_counter()
                    answer = await client.post(
                        sidecar.urls["agents"],
                        headers={**headers, "Flyball-Session": session},
                        json=_message(number),
                    )
                    self._recent_ms.append((time.perf_counter() - began) * 1e3)
                    assert answer.status_code == httpx.codes.OK, answer.text
                    is_denied = b"flyball/denial" in answer.content
                    self.denied += is_denied
                    self.ran += not is_denied

    async def _control(self) -> None:
        """Have a byte sent to and fro by a process that does nothing else."""
        async with await anyio.open_process(["cat"], stderr=None) as echo:
            assert echo.stdin is not None
            assert echo.stdout is not None
            while True:
                await anyio.sleep(1 / CALLS_PER_S)
                began = time.perf_counter()
                await echo.stdin.send(b"x")
                await echo.stdout.receive(1)
                self._control_ms.append((time.perf_counter() - began) * 1e3)

    async def _read(self, sidecar: SidecarProcess) -> None:
        """Read what operators and Prometheus read all the time."""
        async with sidecar.admin() as admin:
            root = str(admin.base_url).split("/admin/", 1)[0]
            while True:
                for path in ("calls", "sessions", "balances?tenant=default", f"{root}/metrics"):
                    answer = await admin.get(path, timeout=60)
                    assert answer.status_code == httpx.codes.OK, answer.text
                await anyio.sleep(SAMPLE_S)

    async def _watch(self, sidecar: SidecarProcess) -> None:
        assert sidecar.process is not None
        process = psutil.Process(sidecar.process.pid)
        wal = sidecar.state / f"{DATABASE_NAME}-wal"
        ends = time.monotonic() + self.seconds
        while time.monotonic() < ends:
            await anyio.sleep(SAMPLE_S)
            recent, self._recent_ms = self._recent_ms, []
            control, self._control_ms = self._control_ms, []
            if not (recent and control):
                continue
            self.samples.append(
                Sample(
                    rss_mib=process.memory_info().rss / 2**20,
                    fds=process.num_fds(),
                    wal_mib=wal.stat().st_size / 2**20,
                    p99_ms=_p99(recent),
                    control_ms=_p99(control),
                )
            )

    async def _check_books(self, sidecar: SidecarProcess) -> None:
        async with open_store(sidecar.state) as store:
            assert await store.reader.run(Conservation().breaches) == []

    def _judged(self) -> dict[str, int]:
        """Hold the last part of the soak against the first, the warm-up left out."""
        kept = self.folder / "first.json"
        if kept.exists():
            first = [Sample(**one) for one in json.loads(kept.read_text(encoding="utf-8"))]
        else:
            first = self._part(1)
            kept.write_text(json.dumps([_fields(one) for one in first]), encoding="utf-8")
        last = self._part(4)
        rss = [_median(part, lambda one: one.rss_mib) for part in (first, last)]
        fds = [max(one.fds for one in part) for part in (first, last)]
        wal_mib = max(one.wal_mib for one in self.samples)
        drift = _ratio(first, last, lambda one: one.p99_ms)
        machine = _ratio(first, last, lambda one: one.control_ms)
        self._note(rss=rss, fds=fds, wal_mib=wal_mib, drift=drift, machine=machine)
        assert rss[1] <= max(rss[0] * RSS_SHARE_MAX, rss[0] + RSS_MIB_MAX), f"memory: {rss} MiB"
        assert fds[1] <= fds[0] + FDS_MAX, f"descriptors: {fds}"
        assert wal_mib <= WAL_MIB_MAX, f"the log: {wal_mib:.0f} MiB"
        busy_ms = _median(self.samples, lambda one: one.control_ms)
        assert busy_ms <= BUSY_MS_MAX, (
            f"a bare process takes {busy_ms:.0f} ms to send a byte back: the machine is too busy "
            "to say anything of p99; run the same command again when it is not"
        )
        assert drift <= DRIFT_MAX * max(1.0, machine), f"p99 {drift:.2f}, machine {machine:.2f}"
        return {"calls": self.ran, "denials": self.denied, "seconds": int(self.seconds)}

    def _note(self, **figures: Any) -> None:
        """Keep what the table of proofs has no room for."""
        p99_ms = _median(self.samples, lambda one: one.p99_ms)
        said = {"calls": self.ran, "denials": self.denied, "p99_ms": p99_ms, **figures}
        with (self.folder / "figures.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({**said, "load": os.getloadavg()[0]}) + "\n")

    def _part(self, fifth: int) -> list[Sample]:
        length = max(1, len(self.samples) // 5)
        return self.samples[fifth * length : (fifth + 1) * length]


def _message(number: int) -> dict[str, object]:
    params = {"name": "worker__echo", "arguments": {"text": f"soak {number}"}, "_meta": _META}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def _p99(samples: Sequence[float]) -> float:
    return sorted(samples)[int(len(samples) * 0.99)]


def _median(samples: Sequence[Sample], of: Callable[[Sample], float]) -> float:
    return statistics.median(map(of, samples))


def _ratio(first: Sequence[Sample], last: Sequence[Sample], of: Callable[[Sample], float]) -> float:
    return _median(last, of) / _median(first, of)


def _fields(sample: Sample) -> dict[str, float]:
    return {name: getattr(sample, name) for name in Sample.__slots__}
