"""Random histories, many operations at once, on a ledger and on the reference beside it."""

import itertools
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from proof.facts import Key, check
from proof.model_budgets import OTHERS, as_set
from proof.reference import Reference
from proof.reference_rules import Rule
from proof.stores import Stage, StoreFactory
from proof.values import chain_of, record_for, request_of, units_of, usage_of

from governor.denial import Denied
from governor.errors import InvalidTransitionError
from governor.events import KeyReused, Released, Replayed, Reserved, Settled
from governor.ids import ReservationId, TenantId
from memory_store.errors import SessionOwnerError

TTL_MS = 100
_BUDGETS_MAX = 6

_index = st.integers(0, 30)
_back_ms = st.sampled_from([0, 0, -40, -100])
_admit = st.tuples(
    st.just("admit"),
    st.sampled_from([(0, 0), (0, 1), (1, 2), (1, 2), (1, 0)]),
    st.integers(0, 9),
    st.sampled_from(["t1", "t2", "t3", "t1", "t2", "t3", None]),
    st.sampled_from([None, None, None, ("k1", "h1"), ("k1", "h2"), ("k2", "h1")]),
    st.sampled_from([0, 0, 0, 0, -40, -4_000, -6_000]),
    st.booleans(),
)
_operation = st.one_of(
    _admit,
    _admit,
    st.tuples(st.just("forward"), _index),
    st.tuples(st.just("settle"), _index, _back_ms, st.integers(0, 14)),
    st.tuples(st.just("release"), _index, _back_ms),
    st.tuples(st.just("wait"), st.integers(1, 60)),
)

# Long batches are what the writer stores together under load.
_MANY = st.lists(_operation, min_size=10, max_size=30)


@dataclass
class World:
    """One store for all histories; each has a tenant of its own and time only goes on."""

    stage: Stage
    portal: BlockingPortal
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    latest_ms: int = 1_000_000
    steps: int = 0

    def call(self, act: Callable[[], Awaitable[Any]]) -> Any:
        return self.portal.call(act)


@contextmanager
def world_of(factory: StoreFactory) -> Iterator[World]:
    with (
        tempfile.TemporaryDirectory() as folder,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(factory.open(Path(folder))) as stage,
    ):
        yield World(stage, portal)


class LedgerMachine(RuleBasedStateMachine):
    """Plays each operation on both and compares what they say."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        world = self.world
        self.tenant = f"m{next(world.numbers)}"
        self.reference = Reference(self.tenant)
        self.fresh = itertools.count()
        self.made: list[str] = []
        self.looks = 0
        self.now_ms = world.latest_ms + 100_000

    @initialize(others=st.lists(OTHERS, min_size=1, max_size=3), times=st.sampled_from([1, 20]))
    def begin(self, others: list[Rule], times: int) -> None:
        """Govern by plain allowances and a few others; wide ones leave the say to those."""
        for level, limits, window_ms in (
            (0, {"cost_microusd": 40}, None),
            (1, {"cost_microusd": 15, "turns": 3}, 200),
            (2, {"tool_calls": 5}, None),
        ):
            wide = {unit: limit * times for unit, limit in limits.items()}
            self._add(Rule(level=level, limits=wide, window_ms=window_ms))
        for budget in others:
            self._add(budget)

    @rule(operations=st.lists(_operation, min_size=1, max_size=5) | _MANY)
    def play(self, operations: list[tuple[Any, ...]]) -> None:
        """Ask for several things at once: they are stored together, in their order."""
        acts, wanted = [], []
        for operation in operations:
            planned = self._plan(operation)
            if planned is not None:
                acts.append(planned[0])
                wanted.append(planned[1])
        said = self.world.call(lambda: _together(acts))
        assert said == wanted
        self.world.steps += len(acts)
        self._compare()

    @rule(all_live=st.booleans())
    def expire(self, *, all_live: bool) -> None:
        ledger = self.world.stage.ledger
        # Other histories of the same store have holds of their own: only time may end those.
        expired = self.world.call(lambda: ledger.expire_due(now_ms=self.now_ms, all_live=all_live))
        mine = {
            one.reservation.reservation_id
            for one in expired
            if one.reservation.chain.tenant == self.tenant
        }
        assert mine == self.reference.expire(self.now_ms, all_live=all_live)
        self.world.steps += 1
        self._compare()

    @rule(index=_index, limit=st.integers(1, 50), another=st.none() | OTHERS)
    def change_budgets(self, index: int, limit: int, another: Rule | None) -> None:
        """Change a limit or add a budget; what is held already does not feel it."""
        rules = self.reference.rules
        name = sorted(rules)[index % len(rules)]
        unit = next(iter(rules[name].limits))
        if another is not None and len(rules) < _BUDGETS_MAX:
            self._add(another)
        else:
            self._put(name, replace(rules[name], limits={**rules[name].limits, unit: limit}))
        self.world.steps += 1

    @precondition(lambda self: self.reference.owners)
    @rule(index=_index)
    def close_session(self, index: int) -> None:
        session = sorted(self.reference.owners)[index % len(self.reference.owners)]
        if index % 5:
            return  # most sessions stay open, or soon nothing could happen
        self.world.call(lambda: self.world.stage.close_session(session, now_ms=self.now_ms))
        self.reference.closed.add(session)
        self.world.steps += 1

    def teardown(self) -> None:
        check(self.world.call(lambda: self.world.stage.facts(self.tenant)))
        assert not self.reference.passed_too_fast()

    def _add(self, budget: Rule) -> None:
        self._put(f"{self.tenant}_{len(self.reference.rules)}", budget)

    def _put(self, name: str, one: Rule) -> None:
        self.reference.put(name, one)
        budget = as_set(one, name, self.tenant)
        self.world.call(lambda: self.world.stage.put_budget(budget))

    def _plan(self, operation: tuple[Any, ...]) -> tuple[Callable[[], Awaitable[Any]], Any] | None:
        """Return the operation as an act on the ledger and what must come of it."""
        ledger, reference = self.world.stage.ledger, self.reference
        if operation[0] == "admit":
            return self._plan_admission(*operation[1:])
        if operation[0] == "wait":
            self.now_ms += operation[1]
        if operation[0] == "wait" or not self.made:
            return None
        name = self.made[operation[1] % len(self.made)]
        call, reservation_id = reference.calls[name], ReservationId(name)
        chain = chain_of(self.tenant, call.agent, call.session)
        call_id = f"call_{name.removeprefix('res_')}"
        ended_at_ms = self.now_ms + (0 if operation[0] == "forward" else operation[2])
        # What an admission saw is known to have passed, whatever the clock says now.
        latest_ms = max(ended_at_ms, self.world.latest_ms)
        match operation[0]:
            case "forward":
                return lambda: ledger.forward(reservation_id), reference.forward(name)
            case "settle":
                used = {"cost_microusd": operation[3]}
                usage = usage_of(units_of(used))
                record = record_for(call_id, chain, ended_at_ms=ended_at_ms, usage=usage)
                wanted = reference.settle(name, used, now_ms=latest_ms)
                return lambda: ledger.settle(reservation_id, usage, record), wanted
            case _:
                record = record_for(call_id, chain, ended_at_ms=ended_at_ms, usage=None)
                wanted = reference.release(name, now_ms=latest_ms)
                return lambda: ledger.release(reservation_id, record), wanted

    def _plan_admission(  # noqa: PLR0917 - as they were drawn
        self,
        who: tuple[int, int],
        cost: int,
        turn: str | None,
        key: tuple[str, str] | None,
        back_ms: int,
        leaves_at_once: bool,  # noqa: FBT001 - as it was drawn
    ) -> tuple[Callable[[], Awaitable[Any]], Any]:
        agent, session = f"{self.tenant}_a{who[0]}", f"{self.tenant}_s{who[1]}"
        name, now_ms = f"{self.tenant}_{next(self.fresh)}", self.now_ms + back_ms
        wanted = {"cost_microusd": cost, "tool_calls": 1}
        asked = request_of(
            name,
            chain_of(self.tenant, agent, session),
            units_of(wanted),
            now_ms=now_ms,
            expires_at_ms=now_ms + TTL_MS,
            turn=turn,
            key=key,
            leaves_at_once=leaves_at_once,
        )
        answer = self.reference.admit(
            asked.reservation_id,
            agent=agent,
            session=session,
            wanted=wanted,
            turn=turn,
            key=key,
            now_ms=now_ms,
            latest_ms=self.world.latest_ms,
            expires_at_ms=now_ms + TTL_MS,
            leaves_at_once=leaves_at_once,
        )
        if answer[0] not in ("raised", "replayed", "reused") and answer[1] != "clock_stepped_back":
            self.world.latest_ms = max(self.world.latest_ms, now_ms)
        if answer[0] == "reserved":
            self.made.append(asked.reservation_id)
        return lambda: self.world.stage.ledger.admit(asked), answer

    def _compare(self) -> None:
        # A wrong balance shows in the answers too; looking at each one costs more than all else.
        self.looks += 1
        if self.looks % 4:
            return
        ledger = self.world.stage.ledger
        views = self.world.call(
            lambda: ledger.balances(tenant=TenantId(self.tenant), now_ms=self.now_ms)
        )
        for view in views:
            account = (view.budget_id, view.subject, view.unit.value)
            said = (view.used, view.reserved, view.overrun)
            assert said == self.reference.shown(*account, self.now_ms), account


async def _together(acts: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Return what each act said; they are begun in their order and none waits for another."""
    said: list[Any] = [None] * len(acts)

    async def one(position: int, act: Callable[[], Awaitable[Any]]) -> None:
        try:
            said[position] = _plain(await act())
        except (InvalidTransitionError, SessionOwnerError) as error:
            said[position] = ("raised", type(error).__name__)

    async with anyio.create_task_group() as group:
        for position, act in enumerate(acts):
            group.start_soon(one, position, act)
    return said


def _plain(outcome: object) -> tuple[object, ...]:
    match outcome:
        case Reserved():
            keys = [Key(*line.key) for line in outcome.reservation.lines]
            assert keys == sorted(keys), "stores that lock rows need one order"
            lines = outcome.reservation.lines
            return ("reserved", {Key(*line.key): line.amount for line in lines})
        case Denied():
            return ("denied", outcome.reason.value)
        case Replayed():
            return ("replayed", outcome.original.reservation_id)
        case KeyReused():
            return ("reused", outcome.original.reservation_id)
        case Settled() | Released():
            charges = {Key(*charge.key): charge.charged for charge in outcome.charges}
            return (outcome.reservation.state.value, charges)
    return ("forwarded",)
