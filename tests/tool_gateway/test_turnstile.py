"""The turnstile before admission: who waits, who is told to come back, what it costs nobody."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import anyio
import pytest

from governor.call import CallStatus, ToolCall
from governor.fairness.adaptive import Adapts, Concurrency
from governor.fairness.claim import Priority, Urgency
from governor.fairness.gate import GateBounds
from governor.fairness.pace import Quota
from governor.fairness.queue import QueueBounds
from governor.fairness.shedding import Pressure, Thresholds
from governor.ids import PrincipalId, SessionId, TenantId
from governor.policy import Match
from governor.scope import ScopeChain
from governor.target import CallKind
from tests.governor.makers import budget
from tests.tool_gateway.makers import FakeClock, House, a_call
from tool_gateway import telemetry
from tool_gateway.contention import Contention, PriorityRule
from tool_gateway.results import DENIAL_META, Outcome, text_result
from tool_gateway.turnstile import Passage, Turnstile

pytestmark = pytest.mark.anyio

ONE = Concurrency(start=1, lowest=1, highest=1)
ONE_AT_A_TIME = Contention(gate=GateBounds(concurrency=ONE))


def call_of(agent: str = "ada", **changes: object) -> ToolCall:
    chain = ScopeChain(
        tenant=TenantId("acme"), agent=PrincipalId(agent), session=SessionId(f"{agent}/one")
    )
    return replace(a_call(), chain=chain, **changes)


class Stage:
    """A turnstile with calls that hold their slot until they are let go."""

    def __init__(self, contention: Contention = ONE_AT_A_TIME, **more: object) -> None:
        self.clock = FakeClock()
        self.turnstile = Turnstile(contention, clock=self.clock, **more)
        self.inside: list[str] = []
        self.denied: dict[str, str] = {}
        self.may_go: dict[str, anyio.Event] = {}
        self._changed = anyio.Event()

    def passage(self, call: ToolCall) -> Passage:
        return self.turnstile.entered(call, kind=CallKind.TOOL, backend="files")

    async def visit(self, name: str, call: ToolCall | None = None) -> None:
        """Go through the turnstile and stay until `may_go`."""
        self.may_go[name] = anyio.Event()
        with self.passage(call or call_of(name)) as passage:
            denied = await passage.turn()
            if denied is not None:
                self.denied[name] = denied.remedy.text
                self._change()
                return
            self.inside.append(name)
            self._change()
            await self.may_go[name].wait()

    async def until(self, number: int) -> None:
        """Wait until so many have got in or were denied."""
        while len(self.inside) + len(self.denied) < number:
            await self._changed.wait()

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


async def settled() -> None:
    """Let every task run that can."""
    await anyio.wait_all_tasks_blocked()


async def test_agents_take_turns_however_many_calls_one_of_them_has_sent() -> None:
    stage = Stage()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(stage.visit, f"greedy-{number}", call_of("greedy"))
                await settled()
            tasks.start_soon(stage.visit, "small", call_of("small"))
            await settled()
            for number in range(1, 8):
                stage.may_go[stage.inside[-1]].set()
                await stage.until(min(number + 1, 7))

    assert stage.inside.index("small") <= 2
    assert stage.denied == {}


async def test_a_call_that_is_cancelled_while_it_waits_leaves_its_place_to_others() -> None:
    stage = Stage()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.visit, "first")
            await settled()
            async with anyio.create_task_group() as impatient:
                impatient.start_soon(stage.visit, "gone")
                await settled()
                impatient.cancel_scope.cancel()
            tasks.start_soon(stage.visit, "last")
            await settled()
            stage.may_go["first"].set()
            await stage.until(2)
            stage.may_go["last"].set()

    assert stage.inside == ["first", "last"]


async def test_a_slot_that_comes_as_its_call_is_cancelled_goes_to_the_next() -> None:
    stage = Stage()
    first = stage.passage(call_of("first"))

    with anyio.fail_after(60):
        await first.turn()
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as impatient:
                impatient.start_soon(stage.visit, "gone")
                await settled()
                tasks.start_soon(stage.visit, "next")
                await settled()
                # In one step of the loop: cancelled, then given the slot.
                impatient.cancel_scope.cancel()
                first.__exit__(None, None, None)
            await stage.until(1)
            stage.may_go["next"].set()

    assert stage.inside == ["next"]
    assert stage.turnstile._lanes[CallKind.TOOL, "files"].gate.in_flight == 0


@pytest.mark.requirement("contention.deadline-is-kept")
async def test_a_call_that_has_not_started_by_its_deadline_is_told_when_to_come_back() -> None:
    stage = Stage()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.visit, "first")
            await settled()
            urgent = call_of("urgent", urgency=Urgency(deadline_ms=5))
            with stage.passage(urgent) as passage:
                denied = await passage.turn()
            stage.may_go["first"].set()

    assert denied is not None
    assert denied.reason == "overloaded"
    assert denied.remedy.action == "retry_later"
    assert denied.retry_after_ms is not None
    assert "did not start within" in denied.remedy.text


@pytest.mark.requirement("contention.deadline-is-kept")
async def test_a_deadline_that_cannot_be_met_is_refused_without_waiting() -> None:
    stage = Stage(Contention(gate=GateBounds(quota=Quota(per_minute=6))))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.visit, "first")
            tasks.start_soon(stage.visit, "second")
            await settled()
            urgent = call_of("urgent", urgency=Urgency(deadline_ms=9_000))
            with stage.passage(urgent) as passage:
                denied = await passage.turn()
            tasks.cancel_scope.cancel()

    assert denied is not None
    assert "past its deadline" in denied.remedy.text


@pytest.mark.requirement("contention.queues-are-bounded")
async def test_a_full_queue_refuses_the_greedy_and_makes_room_for_the_small() -> None:
    bounds = QueueBounds(total=2, per_tenant=2, per_session=2)
    stage = Stage(Contention(gate=GateBounds(queue=bounds, concurrency=ONE)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(stage.visit, f"greedy-{number}", call_of("greedy"))
                await settled()
            tasks.start_soon(stage.visit, "small", call_of("small"))
            await settled()
            assert sorted(stage.denied) == ["greedy-2", "greedy-3"]
            for number in range(1, 4):
                stage.may_go[stage.inside[-1]].set()
                await stage.until(min(3 + number, 5))

    assert set(stage.inside) == {"greedy-0", "greedy-1", "small"}
    assert "Too many calls" in stage.denied["greedy-3"]


@pytest.mark.requirement("contention.commons-within-quota")
async def test_a_commons_starts_calls_at_its_pace_and_no_faster() -> None:
    stage = Stage(Contention(gate=GateBounds(quota=Quota(per_minute=600))))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for name in ("a", "b", "c"):
                tasks.start_soon(stage.visit, name)
                await settled()
            lane = stage.turnstile._lanes[CallKind.TOOL, "files"]
            seen = []
            for _ in range(25):
                stage.clock.at_ms += 10
                lane.start_due()
                await settled()
                seen.append(len(stage.inside))
            for event in stage.may_go.values():
                event.set()

    assert seen == [1] * 9 + [2] * 10 + [3] * 6


async def test_the_keeper_of_the_pace_starts_whoever_waits_for_it() -> None:
    stage = Stage(Contention(gate=GateBounds(quota=Quota(per_minute=60_000))))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.turnstile.keep_pace)
            for name in ("a", "b"):
                tasks.start_soon(stage.visit, name)
            await settled()
            stage.clock.at_ms += 1_000
            await stage.until(2)
            tasks.cancel_scope.cancel()

    assert stage.inside == ["a", "b"]


@pytest.mark.requirement("contention.commons-within-quota")
async def test_a_slot_that_is_free_before_its_time_is_taken_when_the_pace_says_so() -> None:
    stage = Stage(Contention(gate=GateBounds(quota=Quota(per_minute=60_000), concurrency=ONE)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.turnstile.keep_pace)
            for name in ("a", "b"):
                tasks.start_soon(stage.visit, name)
            await settled()
            # Who keeps the pace has seen no slot by now, and waits for nothing.
            stage.may_go["a"].set()
            await settled()
            before = list(stage.inside)
            stage.clock.at_ms += 1_000
            await stage.until(2)
            stage.may_go["b"].set()
            await settled()
            tasks.cancel_scope.cancel()

    assert (before, stage.inside) == (["a"], ["a", "b"])


@pytest.mark.requirement("contention.pressure-sheds")
async def test_under_pressure_a_low_call_is_turned_away_and_a_normal_one_is_not() -> None:
    thresholds = Thresholds(of={Priority.LOW: Pressure(memory=3_000)})
    stage = Stage(Contention(thresholds=thresholds), pressure=lambda: Pressure(memory=4_200))

    with stage.passage(call_of(urgency=Urgency(priority=Priority.LOW))) as passage:
        low = await passage.turn()
    with stage.passage(call_of()) as passage:
        normal = await passage.turn()

    assert normal is None
    assert low is not None
    assert "short of memory: something waits for it 42 % of the time" in low.remedy.text


async def test_a_caller_gets_no_higher_priority_than_its_rule_allows() -> None:
    rules = (
        PriorityRule(match=Match(agent="pager-*"), highest=Priority.HIGH),
        PriorityRule(match=Match(agent="nightly"), usual=Priority.LOW),
    )
    stage = Stage(Contention(priorities=rules, agent_weights={"pager-*": 5, "*": 2}))
    high = Urgency(priority=Priority.HIGH)

    standings = stage.turnstile._standings
    found = [
        standings.claim_of(call, 0)
        for call in (call_of("pager-1", urgency=high), call_of("ada", urgency=high))
    ]

    assert [(c.priority, c.agent_weight) for c in found] == [("high", 5), ("normal", 2)]
    assert standings.priority_of(call_of("nightly")) is Priority.LOW
    assert standings.priority_of(call_of("pager-1")) is Priority.NORMAL


async def test_timeouts_bring_the_limit_down_and_who_waits_feels_it() -> None:
    concurrency = Concurrency(start=10, lowest=1, highest=10, adapts=Adapts.FAILURES)
    stage = Stage(Contention(gate=GateBounds(concurrency=concurrency)))
    for _ in range(3):
        with stage.passage(call_of()) as passage:
            await passage.turn()
            stage.clock.at_ms += 100
            passage.note(CallStatus.TIMED_OUT, wall_ms=50)

    assert stage.turnstile._lanes[CallKind.TOOL, "files"].gate.limit == 7


async def test_nothing_waits_where_contention_is_switched_off_or_the_backend_is_exempt() -> None:
    off = Stage(replace(ONE_AT_A_TIME, enabled=False))
    exempt = Stage(exempt=frozenset({"files"}))

    for stage in (off, exempt):
        with stage.passage(call_of()) as first, stage.passage(call_of()) as second:
            assert (await first.turn(), await second.turn()) == (None, None)


async def test_a_shutdown_turns_away_who_waits() -> None:
    stage = Stage()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.visit, "first")
            tasks.start_soon(stage.visit, "second")
            await settled()
            stage.turnstile.close()
            await stage.until(2)
            tasks.start_soon(stage.visit, "third")
            await stage.until(3)
            stage.may_go["first"].set()

    assert (stage.inside, set(stage.denied)) == (["first"], {"second", "third"})


async def test_a_shutdown_lets_nothing_new_begin_even_where_a_slot_is_free() -> None:
    stage = Stage()
    with stage.passage(call_of()) as before:
        stage.turnstile.close()
        with stage.passage(call_of()) as new:
            denied = await new.turn()
        leg = stage.turnstile.entered(call_of(), kind=CallKind.MODEL, backend="m", goes_on=True)
        with leg:
            turns = [await before.turn(), await leg.turn()]

    assert denied is not None
    assert "The sidecar is shutting down. Nothing was started." in denied.remedy.text
    assert turns == [None, None]


@pytest.mark.requirement("contention.no-hold-waits")
async def test_a_call_that_waits_for_its_turn_holds_nothing_of_any_budget() -> None:
    house = House(budget("calls", tool_calls=10), contention=ONE_AT_A_TIME)
    may_end = anyio.Event()

    async def work() -> Outcome:
        await may_end.wait()
        return Outcome(result=text_result("done"))

    house.backend.behave = work
    results = []

    async def run(number: int) -> None:
        results.append(await house.run(a_call(f"call_{number}")))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(run, number)
            await settled()
            held, ran = house.ledger.remaining(), len(house.backend.ran)
            house.clock.at_ms += 20_000
            may_end.set()

    assert (held, ran) == (9, 1)
    assert [result.is_error for result in results] == [False] * 4
    assert house.ledger.remaining() == 6
    # A hold's time, and the call's, begin when the wait ends.
    assert [record.started_at_ms for record in house.ledger.records] == [
        1_000_000,
        *[1_020_000] * 3,
    ]


async def test_a_call_that_gets_no_slot_is_denied_recorded_and_holds_nothing() -> None:
    bounds = QueueBounds(total=1, per_tenant=1, per_session=1)
    terms = Contention(gate=GateBounds(queue=bounds, concurrency=ONE))
    house = House(budget("calls", tool_calls=10), contention=terms)
    results = []

    async def run(number: int) -> None:
        results.append(await house.run(a_call(f"call_{number}")))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            house.backend.behave = anyio.sleep_forever
            tasks.start_soon(run, 0)
            await house.backend.started.wait()
            tasks.start_soon(run, 1)
            await settled()
            denied = await house.run(a_call("call_2"))
            tasks.cancel_scope.cancel()

    denial = denied.meta[DENIAL_META]
    assert denial["reason"] == "overloaded"
    assert denial["remedy"]["action"] == "retry_later"
    assert denial["retry_after_ms"] >= 250
    assert house.ledger.records[0].status is CallStatus.DENIED
    assert len(house.ledger.events) == 2, "the one that ran and was cancelled"


async def test_the_queue_the_waits_and_the_refusals_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[tuple[str, object]] = []
    with counting(monkeypatch, counted):
        stage = Stage()
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stage.visit, "first")
                await settled()
                with stage.passage(call_of("b", urgency=Urgency(deadline_ms=1))) as passage:
                    await passage.turn()
                stage.may_go["first"].set()

    assert counted == [
        ("show_limit", {"backend": "files", "limit": 1}),
        ("count_waiting", {"backend": "files", "change": 1}),
        ("count_waiting", {"backend": "files", "change": -1}),
        ("note_wait", {"backend": "files", "wait_ms": 0}),
        ("count_shed", {"backend": "files", "reason": "waited"}),
    ]


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch, counted: list[tuple[str, object]]) -> Iterator[None]:
    for name in ("show_limit", "count_waiting", "note_wait", "count_shed"):
        monkeypatch.setattr(telemetry, name, lambda name=name, **said: counted.append((name, said)))
    yield
