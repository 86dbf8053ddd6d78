"""Admissions and settlements per second on SQLite, beside the disk's own fsync.

A pair is one `admit` and one `settle` over three budgets (tenant, agent, session) with two
units each. After each round the balance is held against the pairs that were acknowledged.
"""

import os
import tempfile
import time
from pathlib import Path

import anyio
from measure import machine, percentiles, spread

from governor.admission import AdmissionRequest
from governor.amounts import NOTHING, Amounts, Unit
from governor.budget import Budget
from governor.call import CallRecord, CallStatus
from governor.events import Reserved
from governor.ids import BudgetId, CallId, PrincipalId, ReservationId, SessionId, TenantId
from governor.scope import ScopeChain, ScopeKind
from governor.target import CallKind, CallTarget
from governor.usage import Usage
from governor.window import Lifetime
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.identities import Role
from memory_store.store import Store, open_store

ROUNDS = 3
SECONDS = 3.0
CLIENTS = (1, 64)
TENANT, AGENT, SESSION = TenantId("t"), PrincipalId("a"), SessionId("s")
CHAIN = ScopeChain(tenant=TENANT, agent=AGENT, session=SESSION)
TARGET = CallTarget(kind=CallKind.TOOL, name="echo", upstream="echo")
ESTIMATE = Amounts({Unit.TOOL_CALLS: 1, Unit.COST_MICROUSD: 10})
USAGE = Usage(measured=ESTIMATE)


async def main() -> None:
    """Print the table."""
    print(machine())
    print("| durability | clients | pairs/s | admit p50 ms | admit p99 ms | fsync p50 ms |")
    print("|---|---|---|---|---|---|")
    for durability in Durability:
        for clients in CLIENTS:
            rates, middles, tails, syncs = [], [], [], []
            for _ in range(ROUNDS):
                with tempfile.TemporaryDirectory() as folder:
                    syncs.append(fsync_p50_ms(Path(folder)))
                    rate, samples = await one_round(Path(folder, "state"), durability, clients)
                middle, high = percentiles(samples)
                rates.append(rate)
                middles.append(middle)
                tails.append(high)
            print(
                f"| {durability.value} | {clients} | {spread(rates, 0)} | {spread(middles, 2)} | "
                f"{spread(tails, 1)} | {spread(syncs, 2)} |",
                flush=True,
            )


async def one_round(state: Path, durability: Durability, clients: int) -> tuple[float, list[float]]:
    """Return pairs per second and how long each admission took, in ms."""
    samples: list[float] = []
    async with open_store(state, durability=durability) as store:
        await _prepare(store)
        ends = time.perf_counter() + SECONDS
        async with anyio.create_task_group() as tasks:
            for client in range(clients):
                tasks.start_soon(_client, store, client, ends, samples)
        views = await store.ledger.balances(tenant=TENANT, agent=AGENT, session=SESSION, now_ms=1)
        used = {view.used for view in views if view.unit is Unit.TOOL_CALLS}
        assert used == {len(samples)}, f"{len(samples)} pairs, the books say {used}"
        assert {view.reserved for view in views} == {0}, "a hold is left"
    return len(samples) / SECONDS, samples


async def _client(store: Store, client: int, ends: float, samples: list[float]) -> None:
    number = 0
    while time.perf_counter() < ends:
        number += 1
        name = f"{client}-{number}"
        began = time.perf_counter()
        decision = await store.ledger.admit(_request(name))
        took = time.perf_counter() - began
        assert isinstance(decision, Reserved), decision
        await store.ledger.settle(decision.reservation.reservation_id, USAGE, _record(name))
        samples.append(took * 1000)


def _request(name: str) -> AdmissionRequest:
    return AdmissionRequest(
        reservation_id=ReservationId(f"res-{name}"),
        call_id=CallId(f"call-{name}"),
        target=TARGET,
        chain=CHAIN,
        session_name="s",
        estimate=ESTIMATE,
        turn=None,
        now_ms=1,
        expires_at_ms=10**12,
    )


def _record(name: str) -> CallRecord:
    return CallRecord(
        call_id=CallId(f"call-{name}"),
        kind=CallKind.TOOL,
        name="echo",
        chain=CHAIN,
        turn=None,
        status=CallStatus.OK,
        started_at_ms=1,
        ended_at_ms=2,
        arguments="{}",
        backend="echo",
        rule="default",
        policy_version="0",
        estimate=NOTHING,
        usage=USAGE,
    )


async def _prepare(store: Store) -> None:
    by = Actor(name="benchmark")
    await store.tenants.create(TENANT, name="t", by=by, now_ms=0)
    await store.principals.create(AGENT, tenant=TENANT, name="a", role=Role.AGENT, by=by, now_ms=0)
    for scope in (ScopeKind.TENANT, ScopeKind.AGENT, ScopeKind.SESSION):
        await store.budgets.create(
            Budget(
                budget_id=BudgetId(scope.value),
                tenant=TENANT,
                scope=scope,
                subject=None,
                limits=Amounts({Unit.TOOL_CALLS: 2**40, Unit.COST_MICROUSD: 2**40}),
                window=Lifetime(),
            ),
            by=by,
            now_ms=0,
        )


def fsync_p50_ms(folder: Path) -> float:
    """Return how long this disk takes to make a page durable."""
    samples = []
    with (folder / "probe").open("wb") as file:
        for _ in range(50):
            file.write(b"x" * 4096)
            began = time.perf_counter()
            os.fsync(file.fileno())
            samples.append((time.perf_counter() - began) * 1000)
    return percentiles(samples)[0]


if __name__ == "__main__":
    anyio.run(main)
