"""Admissions and settlements per second on SQLite, beside simpler builds and the disk's fsync.

A pair is one `admit` and one `settle` (with the call's record) over four levels (tenant, agent,
session, sub-session) and three units: twelve accounts, each its own acknowledged operation.
After each round the books are added up and held against the pairs that were acknowledged.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from ledger_peers import PEERS, Peer, run_peer
from measure import machine, percentiles, spread

from governor.account import Account, Balance, BalanceKey
from governor.admission import AdmissionRequest, admit
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
from memory_store.carves import SpawnRequest
from memory_store.engine import Durability
from memory_store.identities import Role
from memory_store.store import Store, open_store
from runtime.clock import SystemClock
from runtime.collector import spare_what_lasts

ROUNDS = 5
SECONDS = 3.0
CLIENTS = (1, 64)
TENANT, AGENT, SESSION = TenantId("t"), PrincipalId("a"), SessionId("s")
UNITS = (Unit.TOOL_CALLS, Unit.COST_MICROUSD, Unit.WALL_MS)
TARGET = CallTarget(kind=CallKind.TOOL, name="echo", upstream="echo")
ESTIMATE = Amounts({Unit.TOOL_CALLS: 1, Unit.COST_MICROUSD: 10, Unit.WALL_MS: 500})
LIMIT = 2**40
LEVELS = 4


async def main(rounds: int) -> None:
    """Print the tables."""
    spare_what_lasts()
    print(machine())
    print(f"pure admit over 12 accounts: p50 {pure_admit_us():.1f} us")
    print("| build | clients | pairs/s | admit p50 ms | admit p99 ms | fsync p50 ms |")
    print("|---|---|---|---|---|---|")
    for durability in Durability:
        for clients in CLIENTS:
            name = f"Flyball, {durability.value}"
            await _row(name, clients, _ours(durability, clients), rounds)
    for peer in PEERS:
        for clients in CLIENTS:
            await _row(peer.name, clients, _theirs(peer, clients), rounds)


@dataclass(slots=True)
class Round:
    """What one round measured."""

    pairs: int = 0
    admit_ms: list[float] = field(default_factory=list)


async def _row(
    name: str, clients: int, run: Callable[[Path], Awaitable[Round]], rounds: int
) -> None:
    rates, middles, tails, syncs = [], [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            syncs.append(fsync_p50_ms(Path(folder)))
            one = await run(Path(folder, "state"))
            middle, high = percentiles(one.admit_ms)
            rates.append(one.pairs / SECONDS)
            middles.append(middle)
            tails.append(high)
    print(
        f"| {name} | {clients} | {spread(rates, 0)} | {spread(middles, 2)} | "
        f"{spread(tails, 1)} | {spread(syncs, 2)} |",
        flush=True,
    )


def _theirs(peer: Peer, clients: int) -> Callable[[Path], Awaitable[Round]]:
    async def run(path: Path) -> Round:
        pairs, took = await anyio.to_thread.run_sync(
            lambda: run_peer(peer, path, clients=clients, seconds=SECONDS)
        )
        return Round(pairs=pairs, admit_ms=took)

    return run


def _ours(durability: Durability, clients: int) -> Callable[[Path], Awaitable[Round]]:
    async def run(path: Path) -> Round:
        return await one_round(path, durability, clients)

    return run


async def one_round(state: Path, durability: Durability, clients: int) -> Round:
    """Return how many pairs were settled and how long each admission took."""
    done = Round()
    async with open_store(state, durability=durability) as store:
        chain = await prepare(store)
        ends = time.perf_counter() + SECONDS
        async with anyio.create_task_group() as tasks:
            for _ in range(clients):
                tasks.start_soon(_client, store, chain, ends, done)
        assert await store.breaches() == []
        views = await store.ledger.balances(
            tenant=TENANT, agent=AGENT, session=chain.session, now_ms=1
        )
        calls = [view for view in views if view.unit is Unit.TOOL_CALLS]
        assert len(calls) == LEVELS, "a level is not charged"
        assert {view.used for view in calls} == {done.pairs}, "the books say something else"
    return done


async def _client(store: Store, chain: ScopeChain, ends: float, done: Round) -> None:
    clock = SystemClock()
    while time.perf_counter() < ends:
        # As the sidecar names its calls: what is stored together then lies together.
        name = clock.fresh("bench")
        began = time.perf_counter()
        decision = await store.ledger.admit(request(name, chain))
        took = time.perf_counter() - began
        assert isinstance(decision, Reserved), decision
        reservation_id = decision.reservation.reservation_id
        await store.ledger.settle(reservation_id, Usage(measured=ESTIMATE), record(name, chain))
        done.pairs += 1
        done.admit_ms.append(took * 1000)


def request(name: str, chain: ScopeChain) -> AdmissionRequest:
    """Return the admission of the call `name`."""
    return AdmissionRequest(
        reservation_id=ReservationId(f"res-{name}"),
        call_id=CallId(f"call-{name}"),
        target=TARGET,
        chain=chain,
        session_name="s",
        estimate=ESTIMATE,
        turn=None,
        now_ms=1,
        expires_at_ms=10**12,
    )


def record(name: str, chain: ScopeChain) -> CallRecord:
    """Return what is kept of the call `name`."""
    return CallRecord(
        call_id=CallId(f"call-{name}"),
        kind=CallKind.TOOL,
        name="echo",
        chain=chain,
        turn=None,
        status=CallStatus.OK,
        started_at_ms=1,
        ended_at_ms=2,
        arguments="{}",
        backend="echo",
        rule="default",
        policy_version="0",
        estimate=NOTHING,
        usage=Usage(measured=ESTIMATE),
    )


async def prepare(store: Store) -> ScopeChain:
    """Make budgets on three levels and carve the fourth out of them; return the chain."""
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
                limits=Amounts(dict.fromkeys(UNITS, LIMIT)),
                window=Lifetime(),
            ),
            by=by,
            now_ms=0,
        )
    chain = await store.ledger.spawn(
        SpawnRequest(
            session_id=SessionId("sub"),
            reservation_id=ReservationId("carve"),
            tenant=TENANT,
            agent=AGENT,
            parent=SESSION,
            parent_name="s",
            name="sub",
            limits=Amounts(dict.fromkeys(UNITS, LIMIT // 2)),
            now_ms=1,
        )
    )
    assert isinstance(chain, ScopeChain), chain
    return chain


def pure_admit_us() -> float:
    """Return the median time of the pure decision over twelve accounts."""
    chain = ScopeChain(tenant=TENANT, agent=AGENT, session=SESSION)
    asked = request("pure", chain)
    balances = [
        Balance(
            Account(
                key=BalanceKey(BudgetId(level), "x", unit, 0),
                scope=ScopeKind.TENANT,
                limit=LIMIT,
                resets_at_ms=None,
            ),
            5,
            5,
        )
        for level in "abcd"
        for unit in UNITS
    ]
    samples = []
    for _ in range(20_000):
        began = time.perf_counter()
        admit(asked, balances, is_turn_new=False)
        samples.append((time.perf_counter() - began) * 1e6)
    return statistics.median(samples)


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of three seconds for each row")
    anyio.run(main, parser.parse_args().rounds)
