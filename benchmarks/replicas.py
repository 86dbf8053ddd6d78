"""Reserve and settle through several sidecars on one PostgreSQL, all on one hot budget.

    python benchmarks/replicas.py --replicas 4 --clients 16 --seconds 5 --rounds 3

Each round starts fresh processes on a fresh database of a server of its own, with fsync on and
`synchronous_commit` on, and checks afterwards that nothing was overspent: what the budget says
is what the replicas were told.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from contracts.builders import COST, TENANT, budget, record, request, used  # noqa: E402
from measure import fsync_ms, machine, spread  # noqa: E402
from postgresql_server import PostgresqlServer, running_server  # noqa: E402

from governor.admission import AdmissionRequest  # noqa: E402
from governor.events import Reserved  # noqa: E402
from governor.ids import CallId, ReservationId  # noqa: E402
from memory_store.audit import Actor  # noqa: E402
from memory_store.engine import Durability  # noqa: E402
from memory_store.store import open_store  # noqa: E402
from runtime.clock import SystemClock  # noqa: E402
from runtime.collector import spare_what_lasts  # noqa: E402

ADMIN = Actor(name="bench")
HELD, CHARGED = 3, 2


def main() -> int:
    """Run the rounds and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--clients", type=int, default=16, help="of each replica")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--replica", nargs=2, metavar=("URL", "NAME"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.replica is not None:
        anyio.run(_replica, *arguments.replica, arguments.clients, arguments.seconds)
        return 0
    with running_server(fsync=True) as server:
        fsyncs_ms, rounds = [], []
        for _ in range(arguments.rounds):
            fsyncs_ms.append(fsync_ms(server.folder / "cluster"))
            with server.database() as url:
                rounds.append(_round(url, arguments, server))
    figures = {
        "replicas": arguments.replicas,
        "clients": arguments.replicas * arguments.clients,
        "machine": machine(),
        "pairs_per_s": spread((one.pairs_per_s for one in rounds), digits=0),
        "client_cpu_us_per_pair": spread((one.client_us for one in rounds), digits=0),
        "server_cpu_us_per_pair": spread((one.server_us for one in rounds), digits=0),
        "pairs_per_transaction": spread(one.pairs_per_transaction for one in rounds),
        "fsync_p50_ms": spread(fsyncs_ms, digits=2),
        "overspent": 0,
    }
    print(json.dumps(figures))
    return 0


@dataclass(frozen=True, slots=True)
class _Round:
    """What all replicas did together, and what a pair cost."""

    pairs_per_s: float
    client_us: float
    server_us: float
    pairs_per_transaction: float


def _round(url: str, arguments: argparse.Namespace, server: PostgresqlServer) -> _Round:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        anyio.run(_prepare, url, Path(folder) / "first")
        running = [
            stack.enter_context(
                subprocess.Popen(
                    [
                        sys.executable, __file__, "--replica", url, f"r{number}",
                        "--clients", str(arguments.clients), "--seconds", str(arguments.seconds),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(arguments.replicas)
        ]  # fmt: skip
        for replica in running:
            assert replica.stdout is not None
            replica.stdout.readline()
        server_s, rows = server.cpu_seconds(), server.count(url, "journal")
        for replica in running:
            assert replica.stdin is not None
            replica.stdin.write("go\n")
            replica.stdin.flush()
        done = [json.loads(replica.communicate()[0]) for replica in running]
        server_s, rows = server.cpu_seconds() - server_s, server.count(url, "journal") - rows
        pairs = sum(one["pairs"] for one in done)
        anyio.run(_check, url, Path(folder) / "last", pairs)
    return _Round(
        pairs_per_s=sum(one["pairs"] / one["seconds"] for one in done),
        client_us=sum(one["cpu_s"] for one in done) * 1e6 / pairs,
        server_us=server_s * 1e6 / pairs,
        pairs_per_transaction=pairs / rows,
    )


async def _prepare(url: str, state_dir: Path) -> None:
    async with open_store(state_dir, url=url) as store:
        await store.tenants.create(TENANT, name="Acme", by=ADMIN, now_ms=1)
        await store.budgets.create(budget({COST: 10**12}), by=ADMIN, now_ms=1)


async def _check(url: str, state_dir: Path, pairs: int) -> None:
    async with open_store(state_dir, url=url) as store:
        (view,) = await store.ledger.balances(tenant=TENANT, now_ms=1_000)
    if (view.used, view.reserved) != (pairs * CHARGED, 0):
        raise SystemExit(f"the budget says {view}, {pairs} pairs were acknowledged")


async def _replica(url: str, name: str, clients: int, seconds: float) -> None:
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        state_dir = Path(folder) / "state"
        async with open_store(state_dir, url=url, durability=Durability.POWER) as store:
            spare_what_lasts()
            print("ready", flush=True)
            sys.stdin.readline()
            began, cpu_s = time.perf_counter(), time.process_time()
            pairs = 0

            async def client() -> None:
                nonlocal pairs
                while time.perf_counter() - began < seconds:
                    asked = _named(clock.fresh(name))
                    if not isinstance(await store.ledger.admit(asked), Reserved):
                        raise SystemExit("the budget is too small")
                    usage = used({COST: CHARGED})
                    await store.ledger.settle(
                        asked.reservation_id, usage, record(asked, usage=usage)
                    )
                    pairs += 1

            async with anyio.create_task_group() as group:
                for _ in range(clients):
                    group.start_soon(client)
            figures = {
                "pairs": pairs,
                "seconds": time.perf_counter() - began,
                "cpu_s": time.process_time() - cpu_s,
            }
            print(json.dumps(figures))


def _named(name: str) -> AdmissionRequest:
    return replace(
        request({COST: HELD}),
        reservation_id=ReservationId(f"res_{name}"),
        call_id=CallId(f"call_{name}"),
    )


if __name__ == "__main__":
    sys.exit(main())
