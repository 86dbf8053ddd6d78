"""Random families of sub-sessions: the books add up after every step."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from begun import begun_for_one
from contracts.builders import AGENT, COST, TENANT, budget, record, request, used
from contracts.conftest import ADMIN, SqlStage
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.account import carve_budget
from governor.admission import AdmissionRequest
from governor.amounts import Amounts
from governor.errors import InvalidScopeError, InvalidTransitionError
from governor.events import Reserved
from governor.ids import ReservationId, SessionId
from governor.scope import ScopeChain, ScopeKind
from memory_store.carves import SpawnRequest
from memory_store.conservation import Conservation
from memory_store.engine import Durability
from memory_store.store import open_store

pytestmark = pytest.mark.anyio

ROOT = SessionId("ses_root")
_index = st.integers(0, 20)
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("spawn"), _index, st.integers(1, 30)),
        st.tuples(st.just("close"), st.integers(1, 20)),
        st.tuples(st.just("admit"), _index, st.integers(0, 12)),
        st.tuples(st.just("forward"), _index),
        st.tuples(st.just("settle"), _index, st.integers(0, 20)),
        st.tuples(st.just("release"), _index),
        st.tuples(st.just("expire")),
        st.tuples(st.just("raise"), st.integers(0, 80)),
    ),
    max_size=30,
)
Op = tuple[object, ...]


@dataclass
class Family:
    """One agent that divides its budgets among sessions."""

    stage: SqlStage
    sessions: list[SessionId] = field(default_factory=lambda: [ROOT])
    limits: dict[SessionId, int] = field(default_factory=dict)
    running: list[AdmissionRequest] = field(default_factory=list)
    overrun: int = 0
    spawned: int = 0
    now_ms: int = 1_000

    async def play(self, op: Op) -> None:
        self.now_ms += 1
        ledger = self.stage.ledger
        match op:
            case ("spawn", int(index), int(limit)):
                await self.spawn(self.sessions[index % len(self.sessions)], limit)
            case ("close", int(index)):
                closing = self.sessions[index % len(self.sessions)]
                if closing != ROOT:
                    await self.stage.close_session(closing)
            case ("admit", int(index), int(cost)):
                await self.admit(self.sessions[index % len(self.sessions)], cost)
            case ("forward", int(index)) if self.running:
                asked = self.running[index % len(self.running)]
                with suppress(InvalidTransitionError):
                    await ledger.forward(asked.reservation_id)
            case ("settle", int(index), int(cost)) if self.running:
                asked = self.running.pop(index % len(self.running))
                self.overrun += max(0, cost - asked.estimate.of(COST))
                ending = record(asked, ended_at_ms=self.now_ms)
                await ledger.settle(asked.reservation_id, used({COST: cost}), ending)
            case ("release", int(index)) if self.running:
                asked = self.running.pop(index % len(self.running))
                await ledger.release(asked.reservation_id, record(asked, ended_at_ms=self.now_ms))
            case ("expire",):
                self.now_ms += 200
                await ledger.expire_due(now_ms=self.now_ms)
                self.running.clear()
            case ("raise", int(limit)):
                await self.stage.put_budget(budget({COST: limit}, budget_id="tenant"))
            case _:
                """An end, before anything was admitted."""

    async def spawn(self, parent: SessionId, limit: int) -> None:
        self.spawned += 1
        child = SessionId(f"ses_{self.spawned}")
        asked = SpawnRequest(
            session_id=child,
            reservation_id=ReservationId(f"carve_{self.spawned}"),
            tenant=TENANT,
            agent=AGENT,
            parent=parent,
            parent_name=parent,
            name=child,
            limits=Amounts({COST: limit}),
            now_ms=self.now_ms,
        )
        with suppress(InvalidScopeError):
            if isinstance(await self.stage.ledger.spawn(asked), ScopeChain):
                self.sessions.append(child)
                self.limits[child] = limit

    async def admit(self, session: SessionId, cost: int) -> None:
        of = ScopeChain(tenant=TENANT, agent=AGENT, session=session)
        asked = request({COST: cost}, of=of, now_ms=self.now_ms, expires_at_ms=self.now_ms + 100)
        if isinstance(await self.stage.ledger.admit(asked), Reserved):
            self.running.append(asked)

    async def check(self) -> None:
        assert await self.stage.store.reader.run(Conservation().breaches) == []
        for session, limit in self.limits.items():
            views = await self.stage.ledger.balances(
                tenant=TENANT, agent=AGENT, session=session, now_ms=self.now_ms
            )
            by_budget = {view.budget_id: view for view in views}
            own = by_budget[carve_budget(session)]
            assert own.used + own.reserved <= limit + own.overrun
            # Whatever is used below is used above; an overrun below is one above.
            for wider in (by_budget["tenant"], by_budget["each"]):
                assert own.used <= wider.used
                assert own.overrun <= wider.overrun
                assert wider.overrun <= self.overrun


@pytest.mark.requirement("sub-session.within-parent")
@settings(max_examples=40)
@given(OPS)
def test_families_of_sessions_keep_the_books_in_order(sqlite_model: Path, ops: list[Op]) -> None:
    anyio.run(_play, sqlite_model, ops)


async def _play(model: Path, ops: list[Op]) -> None:
    with begun_for_one(model) as state_dir:
        async with open_store(state_dir, durability=Durability.PROCESS) as store:
            family = Family(SqlStage(store))
            await family.stage.put_budget(budget({COST: 60}, budget_id="tenant"))
            await family.stage.put_budget(
                budget({COST: 50}, budget_id="each", scope=ScopeKind.SESSION)
            )
            for op in ops:
                await family.play(op)
                await family.check()
            for session in reversed(family.sessions[1:]):
                await store.sessions.close(session, by=ADMIN, now_ms=family.now_ms)
            family.now_ms += 200
            await store.ledger.expire_due(now_ms=family.now_ms)
            await family.check()
            views = await store.ledger.balances(tenant=TENANT, now_ms=family.now_ms)
            assert all(view.reserved == 0 for view in views)
