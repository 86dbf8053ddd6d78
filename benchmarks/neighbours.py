"""What a session's short calls cost beside another session that takes all it can get.

    python benchmarks/neighbours.py [--rounds 10] [--calls 40] [BOMB ...]

Rounds with and without a bomb take turns, so that what else the machine does falls upon both. A
bomb that has ended is started again, as a model would that calls it four times a second. The
ratio is of the 99th percentiles of all calls with and without; its interval is a bootstrap over
rounds.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from measure import machine, percentiles

from ebpf.capability import probe_host
from ebpf.command import Command, EndCause
from ebpf.executor import LocalExecutor
from governor.limits import ExecutionLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MIB = 1 << 20
PYTHON = "/usr/bin/python3"
RESAMPLES = 2_000
PAUSE_SECONDS = 0.25
# A processor of two, a little memory, few processes: what a policy gives to whom it trusts least.
BAD = ExecutionLimits(
    memory_bytes=64 * MIB,
    pids=24,
    cpu_millis=500,
    cpu_ms=None,
    wall_ms=5_000,
    output_bytes=MIB,
    cpu_weight=10,
)
GOOD = ExecutionLimits(
    memory_bytes=256 * MIB,
    pids=64,
    cpu_millis=None,
    cpu_ms=None,
    wall_ms=10_000,
    output_bytes=MIB,
    cpu_weight=1_000,
)
FORKS = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass\n"
ZOMBIES = "import os\nwhile True:\n  try: os.fork() or os._exit(0)\n  except OSError: pass\n"
MAPS = """
import mmap
held = mmap.mmap(-1, 200 << 20)
for place in range(0, 200 << 20, 4096): held[place] = 1
"""
OPENS = """
import os
while True:
    try: os.open("/dev/null", os.O_RDONLY)
    except OSError: os.closerange(3, 1024)
"""
BOMBS: dict[str, tuple[str, ...]] = {
    "nothing (control)": ("sleep", "1000"),
    "fork bomb": (PYTHON, "-S", "-c", FORKS),
    "zombie storm": (PYTHON, "-S", "-c", ZOMBIES),
    "memory, anonymous": (PYTHON, "-S", "-c", "held = b'x' * (200 << 20)"),
    "memory, mapped": (PYTHON, "-S", "-c", MAPS),
    "memory, tmpfs": ("sh", "-c", "head -c 200M /dev/zero > /dev/shm/flyball-bench"),
    "page cache": ("sh", "-c", "while :; do head -c 200M /dev/zero > /var/tmp/flyball-bench; done"),
    "CPU spin": ("sh", "-c", "while :; do :; done & while :; do :; done"),
    "descriptors": (PYTHON, "-S", "-c", OPENS),
    "10 GB of output": ("head", "-c", "10G", "/dev/zero"),
}


async def main(names: Sequence[str], *, rounds: int, calls: int) -> None:
    """Print the table."""
    host = probe_host()
    print(f"{machine()}, backend {host.backend.value}, {rounds} rounds of {calls} calls each")
    print("| bomb | alone p50, p99 ms | beside it p50, p99 ms | p99 ratio (95 %) | p50 ratio |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        executor = LocalExecutor(host=host, state_dir=Path(folder), user="nobody")
        async with executor.guarded():
            for name in names:
                alone, beside = await compared(executor, BOMBS[name], rounds=rounds, calls=calls)
                print(row(name, alone, beside), flush=True)


async def compared(
    executor: LocalExecutor, bomb: tuple[str, ...], *, rounds: int, calls: int
) -> tuple[list[list[float]], list[list[float]]]:
    """Return what each call took in ms, by round, without and with the bomb."""
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    for number in range(rounds):
        arms = [alone, beside] if number % 2 else [beside, alone]
        for arm in arms:
            if arm is beside:
                async with exploding(executor, bomb):
                    arm.append(await timed(executor, calls))
            else:
                arm.append(await timed(executor, calls))
    return alone, beside


@asynccontextmanager
async def exploding(executor: LocalExecutor, bomb: tuple[str, ...]) -> "AsyncIterator[None]":
    """Have a bomb run in another session all the while."""
    command = Command(argv=bomb, cwd="/", env={"PATH": "/usr/bin:/bin"})

    async def again_and_again() -> None:
        number = 0
        while True:
            await executor.run(f"bomb-{number}", command, BAD, session="bad")
            number += 1
            await anyio.sleep(PAUSE_SECONDS)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(again_and_again)
        await anyio.sleep(0.3)  # it has begun to take what it can
        yield
        tasks.cancel_scope.cancel()


async def timed(executor: LocalExecutor, calls: int) -> list[float]:
    """Return what each of so many short calls took, in ms."""
    command = Command(argv=("true",), cwd="/", env={"PATH": "/usr/bin:/bin"})
    took = []
    for number in range(calls):
        began = time.perf_counter()
        ended = await executor.run(f"work-{number}", command, GOOD, session="good")
        took.append((time.perf_counter() - began) * 1000)
        assert ended.cause is EndCause.EXITED, ended
        assert ended.exit_code == 0, ended
    return took


def row(name: str, alone: list[list[float]], beside: list[list[float]]) -> str:
    """Return one line of the table."""
    (middle, tail), (middle_beside, tail_beside) = pooled(alone), pooled(beside)
    chance = random.Random(7)  # noqa: S311 - it draws samples, not secrets
    ratios = sorted(
        pooled(chance.choices(beside, k=len(beside)))[1]
        / pooled(chance.choices(alone, k=len(alone)))[1]
        for _ in range(RESAMPLES)
    )
    low, high = ratios[int(RESAMPLES * 0.025)], ratios[int(RESAMPLES * 0.975)]
    return (
        f"| {name} | {middle:.1f}, {tail:.1f} | {middle_beside:.1f}, {tail_beside:.1f} "
        f"| {tail_beside / tail:.2f} ({low:.2f}-{high:.2f}) | {middle_beside / middle:.2f} |"
    )


def pooled(rounds: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the median and the 99th percentile of all calls of these rounds."""
    return percentiles([took for one in rounds for took in one])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bombs", nargs="*", metavar="BOMB", help=", ".join(BOMBS))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--calls", type=int, default=40)
    chosen = parser.parse_args()
    if unknown := set(chosen.bombs) - BOMBS.keys():
        sys.exit(f"no such bomb: {', '.join(sorted(unknown))}")
    anyio.run(lambda: main(chosen.bombs or list(BOMBS), rounds=chosen.rounds, calls=chosen.calls))
