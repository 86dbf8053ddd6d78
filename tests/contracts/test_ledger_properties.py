"""Random histories: the ledger and its double agree, and the invariants hold at every step."""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from begun import begun_for_one
from contracts.builders import COST, TENANT, budget, chain, record, request, used
from contracts.conftest import SqlStage
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from governor.account import BalanceKey
from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.budget import Budget
from governor.errors import InvalidTransitionError
from governor.events import Ended, Expired, Released, Reserved, Settled
from governor.scope import ScopeKind
from governor.window import Fixed
from memory_store.conservation import Conservation
from memory_store.engine import Durability
from memory_store.ledger import SqlLedger
from memory_store.store import open_store
from memory_store.tables import journal
from memory_store.testing import MemoryLedger

Ledger = SqlLedger | MemoryLedger
Op = tuple[object, ...]

_index = st.integers(0, 30)
OPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("admit"),
            st.sampled_from([("ada", "s1"), ("ada", "s2"), ("bob", "s3")]),
            st.integers(0, 9),
            st.sampled_from(["t1", "t2", "t3"]),
            st.sampled_from([*[("", "")] * 3, ("k1", "h1"), ("k1", "h2"), ("k2", "h1")]),
        ),
        st.tuples(st.just("forward"), _index),
        st.tuples(st.just("settle"), _index, st.integers(0, 14)),
        st.tuples(st.just("release"), _index),
        st.tuples(st.just("expire"), st.booleans()),
        st.tuples(st.just("wait"), st.integers(1, 120)),
        st.tuples(st.just("tenant_budget"), st.integers(1, 40)),
    ),
    max_size=40,
)


@dataclass
class History:
    """Plays the same operations on both ledgers and keeps its own account of what they said."""

    sql: SqlStage
    double: MemoryLedger = field(default_factory=MemoryLedger)
    now_ms: int = 1_000
    asked: list[AdmissionRequest] = field(default_factory=list)
    fold: dict[BalanceKey, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 3))
    ended: set[str] = field(default_factory=set)

    async def play(self, op: Op) -> None:
        match op:
            case ("admit", (str(agent), str(session)), int(cost), str(turn), (str(key), str(sent))):
                of = chain(agent=agent, session=session)
                asked = request(
                    {COST: cost, Unit.TOOL_CALLS: 1},
                    of=of,
                    turn=turn,
                    key=(key, sent) if key else None,
                    now_ms=self.now_ms,
                    expires_at_ms=self.now_ms + 100,
                )
                outcome = await self._both(lambda ledger: ledger.admit(asked))
                if isinstance(outcome, Reserved):
                    self._reserved(asked, outcome)
            case ("forward", int(index)) if self.asked:
                of_id = self._pick(index).reservation_id
                await self._both(lambda ledger: ledger.forward(of_id))
            case ("settle", int(index), int(cost)) if self.asked:
                asked = self._pick(index)
                usage = used({COST: cost})
                ending = record(asked, ended_at_ms=self.now_ms)
                self._ended(
                    await self._both(
                        lambda ledger: ledger.settle(asked.reservation_id, usage, ending)
                    )
                )
            case ("release", int(index)) if self.asked:
                asked = self._pick(index)
                ending = record(asked, ended_at_ms=self.now_ms)
                self._ended(
                    await self._both(lambda ledger: ledger.release(asked.reservation_id, ending))
                )
            case ("expire", bool(all_live)):
                outcome = await self._both(
                    lambda ledger: ledger.expire_due(now_ms=self.now_ms, all_live=all_live)
                )
                assert isinstance(outcome, tuple)
                for expired in outcome:
                    self._ended(expired)
            case ("wait", int(ms)):
                self.now_ms += ms
            case ("tenant_budget", int(limit)):
                await self.put(budget({COST: limit}, budget_id="tenant"))
            case _:
                """An end, before anything was admitted."""

    async def put(self, changed: Budget) -> None:
        await self.sql.put_budget(changed)
        self.double.put_budget(changed)

    async def check(self) -> None:
        """Assert that balances are the fold of the events and that both ledgers show them."""
        views = await self.sql.ledger.balances(tenant=TENANT, now_ms=self.now_ms)
        assert views == await self.double.balances(tenant=TENANT, now_ms=self.now_ms)
        for view in views:
            start_ms = view.window.start_ms(self.now_ms)
            key = BalanceKey(view.budget_id, view.subject, view.unit, start_ms)
            assert [view.used, view.reserved, view.overrun] == self.fold.get(key, [0, 0, 0])

    async def check_stored(self) -> None:
        """Assert that the books add up and that nothing ended twice."""
        assert await self.sql.store.reader.run(Conservation().breaches) == []
        ended = await self.sql.store.reader.run(_ended_once)
        assert ended == Counter(dict.fromkeys(self.ended, 1))

    def _pick(self, index: int) -> AdmissionRequest:
        return self.asked[index % len(self.asked)]

    def _reserved(self, asked: AdmissionRequest, reserved: Reserved) -> None:
        self.asked.append(asked)
        for line in reserved.reservation.lines:
            self.fold[line.key][1] += line.amount

    def _ended(self, outcome: object) -> None:
        if not isinstance(outcome, Settled | Released | Expired):
            return
        ended: Ended = outcome
        assert ended.reservation.reservation_id not in self.ended
        self.ended.add(ended.reservation.reservation_id)
        for charge in ended.charges:
            self.fold[charge.key][0] += charge.charged
            self.fold[charge.key][1] -= charge.held
            self.fold[charge.key][2] += charge.overrun

    async def _both(self, act: Callable[[Ledger], Awaitable[object]]) -> object:
        outcomes = [await _outcome(act, ledger) for ledger in (self.sql.ledger, self.double)]
        assert outcomes[0] == outcomes[1]
        return outcomes[0]


async def _outcome(act: Callable[[Ledger], Awaitable[object]], ledger: Ledger) -> object:
    try:
        outcome = await act(ledger)
    except InvalidTransitionError as error:
        return str(error)
    return _without_order(outcome)


def _without_order(outcome: object) -> object:
    if not isinstance(outcome, tuple):
        return outcome
    return tuple(sorted(outcome, key=lambda expired: expired.reservation.reservation_id))


def _ended_once(connection: Connection) -> Counter[str]:
    """Return how often each reservation ended."""
    ended: Counter[str] = Counter()
    for entries in connection.scalars(select(journal.c.entries)):
        for entry in entries.split("\n"):
            kind, reservation_id, *_ = entry.split()
            ended[reservation_id] += kind != "held"
    return +ended


# A budget that is changed while a call runs is seen by the next one.
CHANGED_MEANWHILE: list[Op] = [
    ("admit", ("ada", "s1"), 0, "t1", ("", "")),
    ("tenant_budget", 1),
    ("settle", 0, 0),
]


@settings(max_examples=60, deadline=None)
@given(OPS)
@example(CHANGED_MEANWHILE)
def test_random_histories_keep_the_invariants(sqlite_model: Path, ops: list[Op]) -> None:
    anyio.run(_play, sqlite_model, ops)


async def _play(model: Path, ops: list[Op]) -> None:
    with begun_for_one(model) as state_dir:
        async with open_store(state_dir, durability=Durability.PROCESS) as store:
            history = History(SqlStage(store))
            await history.put(budget({COST: 40}, budget_id="tenant"))
            await history.put(
                budget(
                    {COST: 15, Unit.TURNS: 3},
                    budget_id="agent",
                    scope=ScopeKind.AGENT,
                    window=Fixed(200),
                )
            )
            await history.put(
                budget({Unit.TOOL_CALLS: 5}, budget_id="session", scope=ScopeKind.SESSION)
            )
            for op in ops:
                await history.play(op)
                await history.check()
            await history.check_stored()
