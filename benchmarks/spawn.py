"""What it costs to start a command in a domain of its own, from a sidecar of 300 MB.

Every way starts `/bin/true` and waits for its end; all take turns in one run, so that the
machine's other work falls on each of them alike. Two figures count: what a domain and a clone
of the spawner cost over a plain `posix_spawn`, and what Flyball's whole run does, which also
supervises, measures and removes. With idle gaps, because writing `cgroup.procs` costs nothing
in a hot loop and a grace period of the kernel after a pause.
"""

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import anyio
from measure import machine

from ebpf.capability import BackendKind, Host, probe_host
from ebpf.command import Command, EndCause
from ebpf.containment import account_of, containment_for
from ebpf.domains.domain import Domain
from ebpf.domains.place import Place
from ebpf.executor import LocalExecutor
from ebpf.fences import domains_on, observed_on
from ebpf.launching import launch
from ebpf.spawning import Spawner
from governor.limits import UNLIMITED, ExecutionLimits

RESIDENT_MB = 300
GAPS_SECONDS = (0.0, 0.2, 1.0)
USER = "nobody"
LIMITS = ExecutionLimits(
    memory_bytes=256 * 1024 * 1024,
    pids=64,
    cpu_millis=1000,
    cpu_ms=None,
    wall_ms=10_000,
    output_bytes=1_000_000,
)
TRUE = Command(argv=("/bin/true",), cwd="/", env={})

BARE = "posix_spawn"
CLONED = "domain + clone of the spawner"
BOOTED = "domain + interpreter launcher"
RUN = "Flyball's whole run"
PREEXEC = "preexec_fn that joins"


class Ways:
    """Each way to start the same command."""

    def __init__(self, host: Host, state_dir: Path, executor: LocalExecutor) -> None:
        """Take where domains are made; the executor is for whole runs."""
        self._executor = executor
        self._number = 0
        self._account = account_of(USER) if host.is_root else None
        self._carve = containment_for(
            landlock_abi=host.landlock_abi, account=self._account, state_dir=state_dir, cwd="/"
        ).carve
        observed = observed_on(state_dir=state_dir, uid=os.getuid())
        self._domains = domains_on(host, observed, state_dir, session=UNLIMITED, tenant=UNLIMITED)
        # As where another call of the session runs: what is above the call's own group stays.
        self._standing = self._domain()
        self._spawner = Spawner(is_root=host.is_root)

    def all(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the ways by name, in the order of their turns."""
        ways: dict[str, Callable[[], Awaitable[None]]] = {
            BARE: self._bare,
            CLONED: self._cloned,
            BOOTED: self._booted,
            RUN: self._run,
        }
        if self._domains.groups:
            ways[PREEXEC] = self._preexec
        return ways

    async def aclose(self) -> None:
        """Remove what was made."""
        self._spawner.close()
        await self._standing.remove()

    async def _bare(self) -> None:
        pid = os.posix_spawn(TRUE.argv[0], TRUE.argv, {})
        assert os.waitpid(pid, 0)[1] == 0

    async def _cloned(self) -> None:
        await self._launched(self._spawner)

    async def _booted(self) -> None:
        await self._launched(None)

    async def _launched(self, spawner: Spawner | None) -> None:
        """Make a domain, have the command begin and end in it, remove the domain."""
        domain = self._domain()
        launched = await launch(
            TRUE,
            entry=domain.entry,
            account=self._account,
            carve=self._carve,
            system_calls=None,
            spawner=spawner,
        )
        await launched.wait_for_command()
        await launched.wait_until_gone()
        assert launched.exit_code == 0
        await launched.aclose()
        await domain.remove()

    async def _preexec(self) -> None:
        domain = self._domain()

        def join() -> None:
            for procs in domain.entry.join:
                group = os.open(procs, os.O_WRONLY)
                os.write(group, b"0")
                os.close(group)

        subprocess.run(TRUE.argv, preexec_fn=join, check=True)
        await domain.remove()

    async def _run(self) -> None:
        self._number += 1
        ended = await self._executor.run(f"bench-{self._number}", TRUE, LIMITS)
        assert ended.cause is EndCause.EXITED, ended
        assert ended.exit_code == 0, ended

    def _domain(self) -> Domain:
        self._number += 1
        place = Place(tenant="local", session="local", call=f"bench-{self._number}")
        return self._domains.make(place, LIMITS)


async def main() -> None:
    """Print one table for each gap."""
    arguments = _arguments()
    held = bytearray(os.urandom(1 << 20)) * arguments.resident_mb
    host = probe_host(only=BackendKind(arguments.backend) if arguments.backend else None)
    print(machine())
    print(f"backend {host.backend}, {len(held) >> 20} MB held")
    with tempfile.TemporaryDirectory() as folder:
        executor = LocalExecutor(host=host, state_dir=Path(folder) / "runs", user=USER)
        async with executor.guarded(), aclosing(Ways(host, Path(folder), executor)) as found:
            ways = found.all()
            for way in ways.values():  # whatever is done once is done now
                await way()
            for gap_seconds in arguments.gaps:
                _print(gap_seconds, await _taken(ways, gap_seconds, arguments.rounds))


async def _taken(
    ways: dict[str, Callable[[], Awaitable[None]]], gap_seconds: float, rounds: int
) -> dict[str, list[float]]:
    """Return what each way took, in milliseconds; they take turns, with a gap before each."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            await anyio.sleep(gap_seconds)
            began = time.perf_counter()
            await way()
            taken[name].append((time.perf_counter() - began) * 1000)
    return taken


def _print(gap_seconds: float, taken: dict[str, list[float]]) -> None:
    print(f"\n{gap_seconds * 1000:.0f} ms between two, {len(taken[BARE])} of each")
    print("| way | p10 ms | p50 ms | p95 ms | p50 over posix_spawn, ms | ratio |")
    print("|---|---|---|---|---|---|")
    bare_ms = _quantile(taken[BARE], 0.5)
    for name, samples_ms in taken.items():
        p10, p50, p95 = (_quantile(samples_ms, part) for part in (0.1, 0.5, 0.95))
        over = f"{p50 - bare_ms:+.2f} | {p50 / bare_ms:.1f}"
        print(f"| {name} | {p10:.2f} | {p50:.2f} | {p95:.2f} | {over} |", flush=True)


def _quantile(samples: list[float], part: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--resident-mb", type=int, default=RESIDENT_MB)
    parser.add_argument("--backend", choices=[kind.value for kind in BackendKind])
    parser.add_argument("--gaps", type=float, nargs="+", default=GAPS_SECONDS, metavar="SECONDS")
    return parser.parse_args()


if __name__ == "__main__":
    anyio.run(main)
