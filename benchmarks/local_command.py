"""One `true` in a domain of its own, beside a bare one: what governing a command costs."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
from measure import machine, percentiles, spread

from ebpf.capability import probe_host
from ebpf.command import Command, EndCause
from ebpf.executor import LocalExecutor
from governor.limits import ExecutionLimits

ROUNDS = 5
RUNS = 40
LIMITS = ExecutionLimits(
    memory_bytes=256 * 1024 * 1024,
    pids=64,
    cpu_millis=1000,
    cpu_ms=None,
    wall_ms=10_000,
    output_bytes=1_000_000,
)


async def main() -> None:
    """Print the table."""
    print(machine())
    print("| what | p50 ms | p99 ms |")
    print("|---|---|---|")
    _row("bare `true`", [[_bare() for _ in range(RUNS)] for _ in range(ROUNDS)])
    python = [
        [_bare(sys.executable, "-I", "-S", "-c", "") for _ in range(RUNS)] for _ in range(ROUNDS)
    ]
    _row("bare Python that does nothing", python)
    for forced in (False, True):
        host = probe_host(force_rlimit=forced)
        with tempfile.TemporaryDirectory() as folder:
            executor = LocalExecutor(host=host, state_dir=Path(folder), user="nobody")
            rounds = [[await _governed(executor, n) for n in range(RUNS)] for _ in range(ROUNDS)]
            await executor.sweep()
        _row(f"`true` in a domain, backend {host.backend.value}", rounds)


async def _governed(executor: LocalExecutor, number: int) -> float:
    command = Command(argv=("true",), cwd="/", env={"PATH": "/usr/bin:/bin"})
    began = time.perf_counter()
    ended = await executor.run(f"bench-{number}", command, LIMITS)
    took = (time.perf_counter() - began) * 1000
    assert ended.cause is EndCause.EXITED, ended
    assert ended.exit_code == 0, ended
    return took


def _bare(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command or ("true",), check=True)
    return (time.perf_counter() - began) * 1000


def _row(what: str, rounds: list[list[float]]) -> None:
    middles, tails = zip(*(percentiles(samples) for samples in rounds), strict=True)
    print(f"| {what} | {spread(middles)} | {spread(tails)} |", flush=True)


if __name__ == "__main__":
    anyio.run(main)
