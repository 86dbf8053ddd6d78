"""What metering costs: a command's entry, a stream over the loopback device, a system call.

Each figure is taken with and without the programs, in turn, so that what else the machine does
falls on both alike; it is processor time, of which others take none.

Run as root: python benchmarks/metering.py [ROUNDS]
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from ebpf.domains.hierarchies import UNIFIED, Hierarchy, find_hierarchies
from ebpf.metering import TRACERS, WITHOUT_OPENS, Metering
from ebpf.probe.layout import (
    ONLY,
    config_bytes,
    found_level,
    id_bytes,
    new_domain_bytes,
    question_bytes,
)
from ebpf.probe.objects import Object
from governor.limits import ExecutionLimits

ROUNDS = 9
PROGRAMS = Path(__file__).resolve().parents[1] / "ebpf" / "programs"
PACKET = bytes.fromhex("ffffffffffff0000000000000800450000260000000040110000") + bytes(32)
CALLS = 1_000
STREAM_BYTES = 128 << 20
DATAGRAMS = 30_000
SYSTEM_CALLS = 200_000
LIMITS = ExecutionLimits(
    memory_bytes=None,
    pids=None,
    cpu_millis=None,
    cpu_ms=None,
    wall_ms=1,
    output_bytes=1,
    egress_bytes=1 << 50,
)
# Each prints how many nanoseconds it took, from inside the group that it has joined.
STREAM = f"""
import socket, threading, time
server = socket.create_server(("127.0.0.1", 0))
def swallow():
    taken, _ = server.accept()
    while taken.recv(1 << 20): pass
thread = threading.Thread(target=swallow); thread.start()
s = socket.create_connection(server.getsockname()); block = bytes(1 << 18)
began = time.process_time_ns()
for _ in range({STREAM_BYTES >> 18}): s.sendall(block)
s.close(); thread.join()
print(time.process_time_ns() - began)
"""
DATAGRAM = f"""
import socket, time
sink = socket.socket(socket.AF_INET, 2); sink.bind(("127.0.0.1", 0))
s = socket.socket(socket.AF_INET, 2); s.connect(sink.getsockname())
began = time.process_time_ns()
for _ in range({DATAGRAMS}): s.send(b"x" * 100)
print((time.process_time_ns() - began) // {DATAGRAMS})
"""
SYSTEM_CALL = f"""
import os, time
ask = os.getppid
began = time.process_time_ns()
for _ in range({SYSTEM_CALLS}): ask()
print((time.process_time_ns() - began) / {SYSTEM_CALLS})
"""


def main() -> None:
    """Print every figure as one JSON object: medians, and the range over the rounds."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with _group() as group:
        figures = {
            "program_ns": _figures([_program_ns() for _ in range(rounds)]),
            "entry_us": _figures([_entry_us(group) for _ in range(rounds)]),
            "stream_ns": _both(group, STREAM, rounds),
            "datagram_ns": _both(group, DATAGRAM, rounds),
            "system_call_ns": _both(group, SYSTEM_CALL, rounds),
        }
    print(json.dumps({"rounds": rounds, "kernel": os.uname().release, **figures}, indent=2))


def _own() -> Hierarchy:
    own = Path("/proc/self")
    found = find_hierarchies(
        mountinfo=(own / "mountinfo").read_text(), memberships=(own / "cgroup").read_text()
    )
    return found[UNIFIED]


@contextmanager
def _group() -> Iterator[Path]:
    base = _own().own / f"flyball-benchmark-{os.getpid()}"
    group = base / "call"
    group.mkdir(parents=True)
    yield group
    group.rmdir()
    base.rmdir()


def _entry_us(group: Path) -> float:
    """Return what one command costs that sends nothing: its entry, figures and removal."""
    metering = Metering(tracers=())
    metering.attach("first", group, LIMITS).close()
    began = time.process_time_ns()
    for _ in range(CALLS):
        attached = metering.attach("call", group, LIMITS)
        attached.measured()
        attached.notes()
        attached.close()
    took = (time.process_time_ns() - began) / CALLS / 1_000
    metering.close()
    return took


def _program_ns() -> float:
    """Return how long the program at a packet's way out runs for a domain that is counted."""
    loaded = Object(PROGRAMS / "metering.bpf.o")
    group_id = _own().own.stat().st_ino
    question, domains = loaded.map("question"), loaded.map("domains")
    question.put(ONLY, question_bytes(group_id))
    loaded.test_run("find_level", PACKET)
    level = found_level(question.get(ONLY) or b"") or 0
    loaded.map("config").put(ONLY, config_bytes(first_level=level, has_free_loopback=False))
    domains.put(id_bytes(group_id), new_domain_bytes(egress_bytes_max=None, records_max=0))
    took = loaded.test_run("count_egress", PACKET, repeat=1_000_000).nanoseconds
    loaded.close()
    return took


def _both(group: Path, script: str, rounds: int) -> dict[str, object]:
    """Return a script's figures without metering, with it, and with it but for opens."""
    found: dict[str, list[float]] = {"without": [], "with": [], "with_no_opens": []}
    kinds = {"with": TRACERS, "with_no_opens": WITHOUT_OPENS}
    for _ in range(rounds):
        found["without"].append(_ran(group, script))
        for name, tracers in kinds.items():
            metering = Metering(tracers=tracers)
            metering.attach("call", group, LIMITS)
            found[name].append(_ran(group, script))
            metering.forget(group.stat().st_ino, unsent=0)
            metering.close()
    base = median(found["without"])
    ratios = {f"{name}_ratio": round(median(found[name]) / base, 3) for name in kinds}
    return {**{name: _figures(values) for name, values in found.items()}, **ratios}


def _ran(group: Path, script: str) -> float:
    """Return what the script printed, run inside the group."""
    joined = f'echo 0 > {group}/cgroup.procs; exec "$@"'
    argv = ["/bin/sh", "-c", joined, "sh", sys.executable, "-S", "-c", script]
    return float(subprocess.run(argv, capture_output=True, check=True).stdout)


def _figures(values: list[float]) -> dict[str, float]:
    return {
        "median": round(median(values), 1),
        "min": round(min(values), 1),
        "max": round(max(values), 1),
    }


if __name__ == "__main__":
    main()
