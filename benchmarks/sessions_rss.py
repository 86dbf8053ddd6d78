"""How much memory many sessions leave behind: each is new, makes one call, and is never seen again.

    python benchmarks/sessions_rss.py --kind modern --sessions 100000

`modern` sessions are named in a header, one call each. `deleted` ones are opened in the era with
sessions, make a call and are ended by their client; `abandoned` ones are not ended. The slope is
that of a line through the samples after the first fifth, in MiB for 10,000 sessions.
"""

import argparse
import asyncio
import itertools
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace

import psutil
from gateway import _started, _upstream
from gateway_load import Caller
from gateway_parties import FLYBALL
from measure import machine

from tool_gateway.upstreams.http1 import ConnectionPool
from tool_gateway.upstreams.origin import origin_of

MIB = 1024 * 1024
WARM_UP_SHARE = 0.2
KINDS = ("modern", "deleted", "abandoned")


@dataclass
class Samples:
    """Sessions so far, and the resident memory of the whole tree then."""

    at: list[int] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)

    def take(self, sessions: int, process: psutil.Process) -> None:
        """Take one more."""
        tree = [process, *process.children(recursive=True)]
        self.at.append(sessions)
        self.mib.append(sum(one.memory_info().rss for one in tree) / MIB)
        print(f"  {sessions:>7} sessions {self.mib[-1]:6.1f} MiB", flush=True)

    def slope(self) -> float:
        """Return MiB for 10,000 sessions after the warm-up."""
        first = next(place for place, at in enumerate(self.at) if at >= self.at[-1] * WARM_UP_SHARE)
        return statistics.linear_regression(self.at[first:], self.mib[first:]).slope * 10_000


def main() -> int:
    """Print the samples and the slope; 1 if it is above what was asked."""
    options = _options()
    print(machine())
    worst = 0.0
    for kind in options.kind or KINDS:
        with ExitStack() as stack:
            behind = stack.enter_context(_upstream(0))
            one = stack.enter_context(_started(FLYBALL, Path(), behind.url))
            samples = Samples()
            began = time.perf_counter()
            refused = asyncio.run(_drive(one.url, kind, options, samples, one.process))
            took_s = time.perf_counter() - began
        worst = max(worst, samples.slope())
        print(
            f"{kind}: {options.sessions} sessions in {took_s:.0f} s, {refused} refused, "
            f"{samples.slope():+.2f} MiB for 10,000 sessions after the warm-up",
            flush=True,
        )
    return int(options.slope_max is not None and worst > options.slope_max)


async def _drive(
    url: str, kind: str, options: argparse.Namespace, samples: Samples, process: psutil.Process
) -> int:
    """Open all sessions, some at once; return how many were refused for their number."""
    origin = origin_of(url)
    assert origin is not None, url
    pool = ConnectionPool("gateway", origin)
    numbers = itertools.count()
    every = max(1, options.sessions // options.samples)
    refused = 0

    async def client() -> None:
        nonlocal refused
        for number in numbers:
            if number >= options.sessions:
                return
            refused += not await _session(number, kind, pool, url)
            if number % every == 0:
                samples.take(number, process)

    await asyncio.gather(*(client() for _ in range(options.callers)))
    samples.take(options.sessions, process)
    return refused


async def _session(number: int, kind: str, pool: ConnectionPool, url: str) -> bool:
    """Live one session; False where there was no place for it."""
    origin = origin_of(url)
    assert origin is not None, url
    terms = SimpleNamespace(
        era="modern" if kind == "modern" else "legacy",
        header=[f"flyball-session: s{number}"] if kind == "modern" else [],
        method="tools/call",
        tool=FLYBALL.tool,
        expect="",
    )
    caller = Caller(f"s{number}", origin, pool, terms)  # type: ignore[arg-type]
    try:
        await caller.open()
    except AssertionError as error:
        if "Too many open sessions" not in str(error):
            raise
        return False
    await caller.call(1)
    assert not caller.errors, caller.errors
    if kind == "deleted":
        await _end(caller, pool)
    return True


async def _end(caller: Caller, pool: ConnectionPool) -> None:
    lines = {"host": caller.origin.host_header, "content-length": "0", **caller.headers}
    head = f"DELETE {caller.origin.path} HTTP/1.1\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    async with pool.sent(head.encode(), b"") as response:
        await response.read(MIB)
        assert response.status == HTTPStatus.OK, response.status


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, action="append", help="may be repeated")
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--slope-max", type=float, help="fail above so many MiB per 10,000")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
