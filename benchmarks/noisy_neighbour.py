"""How late a HIGH session is when LOW ones spin: P50 and P99 of a short task, by weight.

    python benchmarks/noisy_neighbour.py [--rounds 5] [--tasks 300]

Needs root and control groups. A task is some 2 ms of processor time after some 8 ms of rest, in a
group of its own session; as many processes spin in each LOW session as there are processors. The
order of the settings is random in each round, and "alone" is one of them. The weights 1:2:3 are
measured by what three spinning sessions get of one processor.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from statistics import median

from ebpf.capability import probe_host
from ebpf.session_group import SessionGroup
from ebpf.session_tree import SessionTree, places_of
from governor.fairness.claim import Priority
from governor.isolation import weight_of

_TASKS = """
import sys, time
took = []
for _ in range(int(sys.argv[1])):
    time.sleep(0.008)
    began, until = time.perf_counter_ns(), time.thread_time_ns() + 2_000_000
    while time.thread_time_ns() < until:
        pass
    took.append(time.perf_counter_ns() - began)
print(*took)
"""
_SHELL = "/bin/sh"
_SPIN = "while :; do :; done"
_SETTINGS = {
    "alone": (100, ()),
    "even weights": (100, (100, 100)),
    "by priority": (weight_of(Priority.HIGH), (weight_of(Priority.LOW),) * 2),
}
_SHARE_SECONDS = 3.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=300)
    arguments = parser.parse_args()
    places, backend = places_of(probe_host())
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in _SETTINGS}
    for _ in range(arguments.rounds):
        for name in random.sample(list(_SETTINGS), len(_SETTINGS)):
            tree = SessionTree(places, name=f"flyball-bench-{os.getpid()}")
            try:
                found[name].append(_walls(tree, *_SETTINGS[name], tasks=arguments.tasks))
            finally:
                asyncio.run(tree.remove())
    tree = SessionTree(places, name=f"flyball-bench-{os.getpid()}")
    try:
        shares = _shares(tree, (100, 200, 300))
    finally:
        asyncio.run(tree.remove())
    print(json.dumps({"backend": backend, "rounds": arguments.rounds, "tasks": arguments.tasks}))
    for name, rounds in found.items():
        p50s, p99s = zip(*rounds, strict=True)
        print(
            f"{name:<14} P50 {median(p50s):7.2f} ms ({min(p50s):.2f}-{max(p50s):.2f})   "
            f"P99 {median(p99s):7.2f} ms ({min(p99s):.2f}-{max(p99s):.2f})"
        )
    print("weights 1:2:3 give", ", ".join(f"{100 * share:.2f} %" for share in shares))


def _walls(
    tree: SessionTree, weight: int, lows: tuple[int, ...], *, tasks: int
) -> tuple[float, float]:
    """Return P50 and P99, in milliseconds, of tasks beside spinning LOW sessions."""
    tree.session("high").set_weight(weight)
    for number, low in enumerate(lows):
        tree.session(f"low-{number}").set_weight(low)
        for spinner in range(os.cpu_count() or 1):
            _started(tree, f"low-{number}", f"spin-{spinner}", [_SHELL, "-c", _SPIN])
    argv = [sys.executable, "-I", "-S", "-c", _TASKS, str(tasks)]
    said, _ = _started(tree, "high", "work", argv).communicate()
    walls = sorted(int(word) / 1e6 for word in said.split())
    return walls[len(walls) // 2], walls[min(len(walls) - 1, len(walls) * 99 // 100)]


def _shares(tree: SessionTree, weights: tuple[int, ...]) -> list[float]:
    """Return which share of one processor each of the spinning sessions gets."""
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usual)})  # what is started inherits it
    groups: list[SessionGroup] = []
    for number, weight in enumerate(weights):
        groups.append(tree.session(f"s-{number}"))
        groups[-1].set_weight(weight)
        _started(tree, f"s-{number}", "spin", [_SHELL, "-c", _SPIN])
    os.sched_setaffinity(0, usual)
    time.sleep(0.5)
    before = [group.processor_used_us() or 0 for group in groups]
    time.sleep(_SHARE_SECONDS)
    used = [
        (group.processor_used_us() or 0) - was for group, was in zip(groups, before, strict=True)
    ]
    return [one / sum(used) for one in used]


def _started(
    tree: SessionTree, session: str, name: str, argv: list[str]
) -> subprocess.Popen[bytes]:
    join = "".join(f"echo 0 > {path}; " for path in tree.call(session, name).join)
    line = [_SHELL, "-c", f'{join} exec "$@"', "_", *argv]
    return subprocess.Popen(line, stdout=subprocess.PIPE)


if __name__ == "__main__":
    main()
