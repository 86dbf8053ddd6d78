"""Whole sidecars, one, two and four, over one PostgreSQL, and calls that go to any of them.

    python benchmarks/scale.py --replicas 1 --replicas 2 --replicas 4 --rounds 3 --seconds 5

All replicas share one tenant's hot budget and one agent's session; callers are spread over the
replicas without regard to either. After the rounds the budget is lowered to `--last` calls more,
twice as many are made through all replicas at once, and exactly so many may have run. The
database is a server of its own, with fsync on. Load generators, upstream, replicas and server
share the machine's cores: where there are few, the rate is theirs, and the CPU and transactions
for each call say what more machines would do.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from measure import fsync_ms, machine, percentiles, spread  # noqa: E402
from postgresql_server import PostgresqlServer, running_server  # noqa: E402
from processes import cpu_s  # noqa: E402
from sidecars import Sidecar, echo_upstream, sidecar  # noqa: E402

HERE = Path(__file__).parent
CALLERS, BUDGET = 32, "hot"
ENOUGH = 10**12


def main() -> None:
    """Print the table, and as JSON on request."""
    options = _options()
    with ExitStack() as stack:
        server = stack.enter_context(running_server(fsync=True))
        upstream = stack.enter_context(echo_upstream())
        disk_ms = fsync_ms(server.folder / "cluster")
        rows = {count: _measured(server, upstream, count, options) for count in options.replicas}
    if options.json:
        print(json.dumps({"machine": machine(), "fsync_p50_ms": disk_ms, "replicas": rows}))
        return
    print(f"{machine()}, fsync {disk_ms:.2f} ms, {options.callers} callers\n")
    print(
        "| replicas | calls/s | p50 ms | p99 ms | CPU ms/call of the sidecars | of PostgreSQL | "
        "transactions/call | of the last calls ran |\n|---|---|---|---|---|---|---|---|"
    )
    for count, row in rows.items():
        shown = " | ".join(str(value) for value in row.values())
        print(f"| {count} | {shown} |")


def _measured(
    server: PostgresqlServer, upstream: str, count: int, options: argparse.Namespace
) -> dict[str, str]:
    """Return what so many replicas did, on a database of their own."""
    with server.database() as url, ExitStack() as stack:
        replicas = [stack.enter_context(_replica(url, upstream)) for _ in range(count)]
        rounds = [_round(server, url, replicas, options) for _ in range(options.rounds)]
        ran = _last_calls(replicas, options)
    return {
        "calls_per_s": spread((one["rate"] for one in rounds), digits=0),
        "p50_ms": spread(one["p50"] for one in rounds),
        "p99_ms": spread(one["p99"] for one in rounds),
        "sidecar_cpu_ms": spread((one["sidecar_cpu"] for one in rounds), digits=2),
        "server_cpu_ms": spread((one["server_cpu"] for one in rounds), digits=2),
        "transactions_per_call": spread((one["transactions"] for one in rounds), digits=2),
        "last_calls": f"{ran} of {options.last}",
    }


def _round(
    server: PostgresqlServer, url: str, replicas: Sequence[Sidecar], options: argparse.Namespace
) -> dict[str, float]:
    each = max(1, options.callers // len(replicas))
    used = sum(cpu_s(one.process) for one in replicas)
    server_s, journal = server.cpu_seconds(), server.count(url, "journal")
    found = _loads(replicas, callers=each, seconds=options.seconds)
    errors = [error for one in found for error in one["errors"]]
    assert not errors, errors
    samples = [sample for one in found for sample in one["samples_ms"]]
    made = len(samples) + each * len(replicas)
    p50, p99 = percentiles(samples)
    return {
        "rate": sum(len(one["samples_ms"]) / one["took_s"] for one in found),
        "p50": p50,
        "p99": p99,
        "sidecar_cpu": (sum(cpu_s(one.process) for one in replicas) - used) * 1e3 / made,
        "server_cpu": (server.cpu_seconds() - server_s) * 1e3 / made,
        "transactions": (server.count(url, "journal") - journal) / made,
    }


def _last_calls(replicas: Sequence[Sidecar], options: argparse.Namespace) -> int:
    """Return how many calls ran where so many were left, and twice as many came at once."""
    first = replicas[0]
    with httpx.Client(
        base_url=first.admin, headers={"Authorization": f"Bearer {first.admin_token}"}
    ) as admin:
        (balance,) = admin.get("balances", params={"tenant": "default"}).json()["items"]
        limit = balance["used"] + options.last
        answer = admin.put(f"budgets/{BUDGET}", json={"limits": {"tool_calls": limit}})
        assert answer.is_success, answer.text
        each = max(1, options.callers // len(replicas))
        found = _loads(replicas, callers=each, calls=2 * options.last // (each * len(replicas)))
        (after,) = admin.get("balances", params={"tenant": "default"}).json()["items"]
    ran = sum(len(one["samples_ms"]) + one["first"] for one in found)
    assert (after["used"], after["reserved"]) == (limit, 0), after
    assert ran == options.last, f"{ran} calls ran where {options.last} were left"
    return ran


def _loads(
    replicas: Sequence[Sidecar], *, callers: int, seconds: float = 0.0, calls: int = 0
) -> list[dict[str, Any]]:
    """Return what load generators saw, one for each replica, all at once."""
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(
                    [
                        *(sys.executable, str(HERE / "gateway_load.py"), "--url", one.agents),
                        *("--tool", "echo__echo", "--callers", str(callers)),
                        *("--seconds", str(seconds), "--calls", str(calls)),
                        *("--header", f"Authorization: Bearer {one.token}"),
                        *("--header", "Flyball-Session: hot"),
                    ],
                    stdout=subprocess.PIPE,
                )
            )
            for one in replicas
        ]
        return [json.loads(one.communicate()[0]) for one in running]


def _replica(url: str, upstream: str) -> AbstractContextManager[Sidecar]:
    budget = (
        f'[[budget]]\nid = "{BUDGET}"\nscope = "tenant"\nlimits = {{ tool_calls = {ENOUGH} }}\n'
    )
    return sidecar(upstream, config=budget, environment={"FLYBALL_STORE_URL": url})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, action="append", help="how many; may be repeated")
    parser.add_argument("--callers", type=int, default=CALLERS, help="of all replicas together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--last", type=int, default=320, help="calls that the budget ends with")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.replicas = options.replicas or [1, 2, 4]
    return options


if __name__ == "__main__":
    main()
