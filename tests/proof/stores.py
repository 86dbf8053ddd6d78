"""The stores that the proofs judge, each opened through the same few methods.

A further kind of store joins by a factory of its own: in `FACTORIES` if it needs nothing but a
folder; one on a server is made where that server is known.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from proof.book_rows import read_facts
from proof.facts import Facts, Hold, Key, Standing

from governor.account import Booking
from governor.amounts import Amounts, Unit
from governor.budget import Budget
from governor.ids import ReservationId, SessionId
from governor.scope import ScopeChain
from memory_store.audit import Actor
from memory_store.carves import SpawnRequest
from memory_store.engine import Durability
from memory_store.errors import AlreadyExistsError
from memory_store.ledger import SqlLedger
from memory_store.store import Store, open_store
from memory_store.testing import MemoryLedger

BY = Actor(name="proof")

Ledger = SqlLedger | MemoryLedger


class Stage(Protocol):
    """An open ledger and what stands around it."""

    @property
    def ledger(self) -> Ledger: ...

    async def put_budget(self, budget: Budget) -> None: ...

    async def close_session(self, session: str, *, now_ms: int) -> None: ...

    async def spawn(
        self, parent: ScopeChain, name: str, limits: Mapping[Unit, int], *, now_ms: int
    ) -> ScopeChain: ...

    async def facts(self, tenant: str | None = None) -> Facts: ...


class StoreFactory(Protocol):
    """A kind of store."""

    @property
    def name(self) -> str: ...

    @property
    def is_double(self) -> bool: ...

    def open(self, folder: Path) -> AbstractAsyncContextManager[Stage]: ...


@dataclass
class SqlStage:
    store: Store

    @property
    def ledger(self) -> SqlLedger:
        return self.store.ledger

    async def put_budget(self, budget: Budget) -> None:
        try:
            await self.store.tenants.create(budget.tenant, name=budget.tenant, by=BY, now_ms=0)
        except AlreadyExistsError:
            """A tenant may have several budgets."""
        await self.store.budgets.put(budget, expected_version=None, by=BY, now_ms=0)

    async def close_session(self, session: str, *, now_ms: int) -> None:
        await self.store.sessions.close(SessionId(session), by=BY, now_ms=now_ms)

    async def spawn(
        self, parent: ScopeChain, name: str, limits: Mapping[Unit, int], *, now_ms: int
    ) -> ScopeChain:
        chain = await self.ledger.spawn(
            SpawnRequest(
                session_id=SessionId(name),
                reservation_id=ReservationId(f"carve_{name}"),
                tenant=parent.tenant,
                agent=parent.agent,
                parent=parent.session,
                parent_name=parent.session,
                name=name,
                limits=Amounts(limits),
                now_ms=now_ms,
            )
        )
        assert isinstance(chain, ScopeChain), chain
        return chain

    async def facts(self, tenant: str | None = None) -> Facts:
        return await read_facts(self.store, tenant)


@dataclass
class MemoryStage:
    ledger: MemoryLedger = field(default_factory=MemoryLedger)

    async def put_budget(self, budget: Budget) -> None:
        self.ledger.put_budget(budget)

    async def close_session(self, session: str, *, now_ms: int) -> None:
        self.ledger.close_session(SessionId(session))

    async def spawn(
        self, parent: ScopeChain, name: str, limits: Mapping[Unit, int], *, now_ms: int
    ) -> ScopeChain:
        message = "the double knows no sub-sessions"
        raise AssertionError(message)

    async def facts(self, tenant: str | None = None) -> Facts:
        return facts_of_double(self.ledger)


def facts_of_double(ledger: MemoryLedger) -> Facts:
    """Return the books of the double, which keeps no journal."""
    recorded = Counter(record.call_id for record in ledger.records)
    holds = [hold.reservation for hold in ledger._holds.values()]
    keys = {by: (agent, key) for (agent, key), (by, _) in ledger._keys.items()}
    return Facts(
        accounts={
            Key(*key): Standing(one.settled, one.reserved, one.overrun)
            for key, one in ledger._accounts.items()
        },
        holds=[
            Hold(
                reservation_id=hold.reservation_id,
                state=hold.state.value,
                expires_at_ms=hold.expires_at_ms,
                agent=hold.chain.agent,
                key=keys.get(hold.reservation_id, (None, None))[1],
                is_carve=False,
                # On a rate nothing is held: what passed is booked at once.
                lines=tuple(
                    (Key(*line.key), line.amount)
                    for line in hold.lines
                    if line.booking is not Booking.RATE
                ),
            )
            for hold in holds
        ],
        unrecorded=[
            hold.reservation_id
            for hold in holds
            if recorded[hold.call_id] != (0 if hold.is_live else 1)
        ],
        parents=_parents(ledger),
    )


def _parents(ledger: MemoryLedger) -> dict[str, str]:
    parents: dict[str, str] = {}
    for name, seen in ledger._sessions.items():
        parents[name], parents[seen.agent] = seen.agent, seen.tenant
    return parents


@dataclass(frozen=True)
class SqliteFactory:
    durability: Durability = Durability.PROCESS
    name: str = "sqlite"
    is_double: bool = False

    @asynccontextmanager
    async def open(self, folder: Path) -> AsyncIterator[SqlStage]:
        async with open_store(folder / "state", durability=self.durability) as store:
            yield SqlStage(store)


@dataclass(frozen=True)
class MemoryFactory:
    name: str = "memory"
    is_double: bool = True

    @asynccontextmanager
    async def open(self, folder: Path) -> AsyncIterator[MemoryStage]:
        yield MemoryStage()


@dataclass(frozen=True)
class PostgresqlFactory:
    """One database of a server; whoever opens it has a folder for it."""

    url: str
    durability: Durability = Durability.PROCESS
    name: str = "postgresql"
    is_double: bool = False

    @asynccontextmanager
    async def open(self, folder: Path) -> AsyncIterator[SqlStage]:
        async with open_store(folder / "state", url=self.url, durability=self.durability) as store:
            yield SqlStage(store)


FACTORIES: Sequence[StoreFactory] = (MemoryFactory(), SqliteFactory())
