"""Calls that use the books as the gateway does, and note what they were told."""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio
from proof.facts import Facts, check
from proof.stores import SqlStage
from proof.values import CALLS, COST, budget_of, chain_of, record_for, request_of, usage_of

from governor.denial import Denied
from governor.events import Reserved
from governor.reservation import Reservation
from governor.scope import ScopeKind
from runtime.adapters import StoreLedger
from tests.tool_gateway.makers import FakeClock
from tool_gateway.books import Books

LIMIT = 60
UNDER_WAY = 30
HELD, USED = {COST: 5, CALLS: 1}, {COST: 3, CALLS: 1}
CHAIN = chain_of("acme", "ada", "one")
_ORDER = ("held", "forwarded", "settled")


@dataclass
class CrowdOnDisk:
    """Calls of one tenant. `told` is the last word that each reservation's caller had."""

    stage: SqlStage
    told: dict[str, str] = field(default_factory=dict)
    denied: Counter[str] = field(default_factory=Counter)
    clock: FakeClock = field(default_factory=FakeClock)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    is_under_way: anyio.Event = field(default_factory=anyio.Event)
    is_denied: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        ledger = StoreLedger(ledger=self.stage.ledger, calls=self.stage.store.calls)
        self.books = Books(ledger=ledger, clock=self.clock)

    async def open(self, *, limit: int = LIMIT) -> None:
        await self.stage.put_budget(budget_of("b", "acme", ScopeKind.TENANT, {COST: limit}))

    async def admit(self) -> Reservation | None:
        now_ms = self.clock.now_ms()
        name = f"c{next(self.numbers)}"
        asked = request_of(name, CHAIN, HELD, now_ms=now_ms, expires_at_ms=now_ms + 60_000)
        decision = await self.books.admit(asked)
        if isinstance(decision, Denied):
            self.denied[decision.reason] += 1
            self.is_denied.set()
            return None
        assert isinstance(decision, Reserved)
        self.told[asked.reservation_id] = "held"
        if len(self.told) == UNDER_WAY:
            self.is_under_way.set()
        return decision.reservation

    async def forward(self, held: Reservation) -> bool:
        is_marked = await self.books.forward(held.reservation_id) is None
        if is_marked:
            self.told[held.reservation_id] = "forwarded"
        return is_marked

    async def end(self, held: Reservation) -> bool:
        """Settle, and tell whether it was said that this is stored."""
        ended_at_ms = self.clock.now_ms()
        record = record_for(held.call_id, CHAIN, ended_at_ms=ended_at_ms, usage=usage_of(USED))
        is_stored = await self.books.end(held.reservation_id, record) is not None
        if is_stored:
            self.told[held.reservation_id] = "settled"
        return is_stored

    async def call(self) -> None:
        held = await self.admit()
        if held is not None and await self.forward(held):
            await self.end(held)

    async def calls(self, count: int) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(count):
                group.start_soon(self.call)

    async def call_until_denied(self) -> None:
        while not self.denied:
            await self.call()

    async def judge(self) -> Facts:
        """Hold the books against what was said: all of that is stored, and nothing above."""
        facts = await self.stage.facts()
        check(facts)
        states = {hold.reservation_id: hold.state for hold in facts.holds}
        for name, word in self.told.items():
            assert _ORDER.index(states[name]) >= _ORDER.index(word), (name, word, states[name])
        (standing,) = [one for key, one in facts.accounts.items() if key.unit == COST]
        settled = sum(state == "settled" for state in states.values())
        assert standing.settled == USED[COST] * settled
        return facts
