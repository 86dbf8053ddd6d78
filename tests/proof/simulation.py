"""One seed's story: agents, an upstream that counts, a clock that steps, a process that dies.

The whole admission path (`Pipeline`, `Books`, the ledger) runs in virtual time. Whatever the
seed throws at it, the upstream is never used for free, no budget is exceeded, no key runs
twice and nothing stays held.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio
from proof.facts import check
from proof.simulated_store import Faults, SimulatedLedger, Witness
from proof.stores import Stage
from proof.values import budget_of, chain_of

from governor.amounts import Amounts, Unit
from governor.budget import Budget, BudgetKind
from governor.call import CallStatus, Idempotency, Isolated, ToolCall
from governor.ids import CallId, TurnId
from governor.limits import ExecutionLimits
from governor.policy import Match, ToolRule
from governor.scope import ScopeChain, ScopeKind
from governor.usage import Usage
from governor.window import Fixed, Sliding
from tests.tool_gateway.makers import ENTRY, LIMITS, TOOL, FakeArchive, House
from tool_gateway.errors import (
    LedgerOverloadedError,
    LedgerUnavailableError,
    UpstreamFailedError,
    UpstreamNotReachedError,
)
from tool_gateway.pipeline import Pipeline
from tool_gateway.ports import Meter
from tool_gateway.results import Outcome, text_result
from tool_gateway.running import RunningCalls

PRICE = 7
CLIENTS, CALLS_EACH, TRIES_MAX = 4, 3, 3
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SLIDING_MS = (3_000, 12_000, 6 * HOUR_MS)
REAP_SECONDS = 5.0
RULE = ToolRule(name="any", match=Match(), allow=True, limits=LIMITS, cost_microusd=PRICE)
COST = Unit.COST_MICROUSD


@dataclass
class SteppingClock:
    """Virtual time, with somebody's hand on the clock on the wall."""

    offset_ms: int = 1_000 * DAY_MS
    number: int = 0

    def now_ms(self) -> int:
        return self.offset_ms + self.elapsed_ms()

    def elapsed_ms(self) -> int:
        return int(anyio.current_time() * 1000)

    def fresh(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}_{self.number}"


@dataclass
class CountingUpstream:
    """Does the work, counts what it gave, and answers as the seed says, or not at all."""

    rng: random.Random
    spends_beyond: bool
    clock: SteppingClock
    given: dict[str, tuple[ScopeChain, int]] = field(default_factory=dict)
    reached: Counter[str] = field(default_factory=Counter)
    # Some of a call may have arrived, whatever became of it.
    sent: set[CallId] = field(default_factory=set)
    name: str = "files"
    unmeasurable: Mapping[Unit, str] = field(default_factory=lambda: {Unit.CPU_MS: "elsewhere"})

    def isolation_for(self, call: ToolCall, limits: ExecutionLimits) -> Isolated | None:
        return None

    async def run(self, call: ToolCall, limits: ExecutionLimits, meter: Meter) -> Outcome:
        await anyio.lowlevel.checkpoint_if_cancelled()
        self.sent.add(call.call_id)
        await anyio.sleep(self.rng.uniform(0, 0.01))
        fate = self.rng.random()
        if fate < 0.1:
            raise UpstreamNotReachedError
        used = self.rng.randint(0, PRICE)
        if self.spends_beyond and self.rng.random() < 0.3:
            used += self.rng.randint(1, 20)
        self._give(call, used)
        # From here on it is spent; what it reports is what it gave.
        meter.usage = Usage(measured=Amounts({COST: used}))
        await anyio.sleep(self.rng.uniform(0, 6) if fate < 0.4 else 0.001)
        if fate < 0.2:
            raise UpstreamFailedError
        if fate < 0.3:
            text = text_result("too late", is_error=True)
            return Outcome(result=text, status=CallStatus.TIMED_OUT, usage=meter.usage)
        return Outcome(result=text_result("done"), usage=meter.usage)

    def _give(self, call: ToolCall, used: int) -> None:
        self.reached[call.call_id] += 1
        if call.idempotency is not None:
            self.reached[call.idempotency.key] += 1
        self.given[call.call_id] = (call.chain, used)


@dataclass(kw_only=True)
class World:
    """What outlives the process: the store, the upstream, the archive, the agents' memory."""

    stage: Stage
    rng: random.Random
    clock: SteppingClock
    upstream: CountingUpstream
    witness: Witness
    prefix: str
    faults: Faults
    archive: FakeArchive = field(default_factory=FakeArchive)
    left: list[int] = field(default_factory=lambda: [CALLS_EACH] * CLIENTS)
    outcomes: Counter[str] = field(default_factory=Counter)

    async def live(self, *, dies: bool) -> None:
        """Run one life of the process, which ends with its work done or with a crash."""
        ledger = SimulatedLedger(self.stage.ledger, self.witness, self.rng, self.faults)
        house = House(rule=RULE, ledger=ledger, clock=self.clock, archive=self.archive)
        async with anyio.create_task_group() as life:
            life.start_soon(ledger.serve)
            life.start_soon(self._reap, ledger)
            life.start_soon(self._meddle, house.running)
            with anyio.move_on_after(self.rng.uniform(0.01, 4) if dies else 3_600):
                async with anyio.create_task_group() as agents:
                    for number in range(CLIENTS):
                        agents.start_soon(self._agent, number, house.pipeline)
                    if dies:
                        agents.start_soon(self._crash, ledger, agents)
            ledger.die()
            life.cancel_scope.cancel()

    async def _crash(self, ledger: SimulatedLedger, agents: anyio.abc.TaskGroup) -> None:
        await anyio.sleep(self.rng.uniform(0, 4))
        # Dead before anybody is told, so that no cleanup of the dead reaches the store.
        ledger.die()
        agents.cancel_scope.cancel()

    async def _reap(self, ledger: SimulatedLedger) -> None:
        is_new = True
        while True:
            try:
                await ledger.expire_due(now_ms=self.clock.now_ms(), all_live=is_new)
                is_new = False
            except (LedgerUnavailableError, LedgerOverloadedError):
                self.outcomes["reaper turned away"] += 1
            await anyio.sleep(REAP_SECONDS)

    async def _meddle(self, running: RunningCalls) -> None:
        """Step the clock, and stop the calls of a session."""
        while True:
            await anyio.sleep(self.rng.uniform(0.5, 10))
            match self.rng.randrange(8):
                case 0:
                    self.clock.offset_ms += self.rng.choice([HOUR_MS, DAY_MS])
                case 1:
                    self.clock.offset_ms -= self.rng.choice([1_000, 2_500, HOUR_MS, DAY_MS])
                case 2:
                    running.stop_all(why="an administrator")
                case _:
                    """Nobody meddles this time."""

    async def _agent(self, number: int, pipeline: Pipeline) -> None:
        rng = random.Random(f"{self.prefix}/{number}/{self.left[number]}")
        chain = chain_of(
            self.prefix, f"{self.prefix}_a{number % 2}", f"{self.prefix}_s{number % 3}_{number % 2}"
        )
        while self.left[number]:
            key = f"{self.prefix}_k{number}_{self.left[number]}" if rng.random() < 0.6 else None
            for _ in range(TRIES_MAX if key else 1):
                if await self._call(pipeline, rng, chain, key):
                    break
            self.left[number] -= 1

    async def _call(
        self, pipeline: Pipeline, rng: random.Random, chain: ScopeChain, key: str | None
    ) -> bool:
        """Make one call and tell whether its agent is satisfied."""
        call = ToolCall(
            call_id=CallId(f"{self.prefix}_{self.clock.fresh('call')}"),
            tool=TOOL,
            arguments={"number": self.clock.number},
            chain=chain,
            turn=TurnId(f"turn_{rng.randrange(3)}"),
            idempotency=None if key is None else Idempotency(key=key, payload_hash="hash"),
        )
        await anyio.sleep(rng.uniform(0, 0.5))
        patience = rng.uniform(0, 2) if rng.random() < 0.2 else 600
        with anyio.move_on_after(patience):
            result = await pipeline.run(
                call, session_name=chain.session, entry=ENTRY, backend=self.upstream
            )
            self.outcomes["error" if result.is_error else "answer"] += 1
            return not result.is_error
        self.outcomes["client left"] += 1
        return False

    async def judge(self) -> None:
        """End what is overdue and hold the books against what the upstream gave."""
        expired = await self.stage.ledger.expire_due(now_ms=2**60, all_live=True)
        for one in expired:
            self.witness.end(one)
        facts = await self.stage.facts(self.prefix)
        check(facts)
        mine = {
            key: one for key, one in facts.accounts.items() if key.budget_id[:-2] == self.prefix
        }
        assert all(one.reserved == 0 for one in mine.values())
        fold = {key: one for key, one in self.witness.fold.items() if any(one)}
        assert fold == {key: one for key, one in mine.items() if any(one)}
        charged: dict[tuple[str, Unit], Counter[str]] = defaultdict(Counter)
        for key, standing in mine.items():
            if key.budget_id != f"{self.prefix}_n":
                charged[key.subject, Unit(key.unit)][key.budget_id] += standing.settled
        for place, spent in self._given().items():
            # Each budget for itself: what one charged is no excuse for another.
            least = min(charged[place].values(), default=0)
            assert least >= spent, f"{place}: {spent} given, {least} charged"
        twice = [name for name, times in self.upstream.reached.items() if times > 1]
        assert not twice, f"ran twice: {twice}"
        free = self.witness.released & self.upstream.reached.keys()
        assert not free, f"released and yet given: {free}"
        unsent = self.witness.settled - self.upstream.sent
        assert not unsent, f"never sent and yet settled: {unsent}"

    def _given(self) -> Counter[tuple[str, Unit]]:
        """Return what must have been charged: of a call whose end was lost, its hold at most."""
        given: Counter[tuple[str, Unit]] = Counter()
        for call_id, (chain, used) in self.upstream.given.items():
            spent = used if call_id in self.witness.settled else min(used, PRICE)
            for subject in (chain.tenant, chain.agent, chain.session):
                given[subject, COST] += spent
                given[subject, Unit.TOOL_CALLS] += 1
        return given


def _budgets(prefix: str, rng: random.Random) -> Sequence[Budget]:
    calls = CLIENTS * CALLS_EACH
    limits = {
        COST: rng.randint(PRICE * calls // 4, PRICE * calls * 2),
        Unit.TOOL_CALLS: rng.randint(calls // 4, calls * 2),
    }
    narrow = {COST: rng.randint(PRICE, PRICE * calls), Unit.TURNS: rng.randint(1, 4)}
    return [
        budget_of(f"{prefix}_t", prefix, ScopeKind.TENANT, limits),
        budget_of(f"{prefix}_a", prefix, ScopeKind.AGENT, limits, window=Fixed(HOUR_MS)),
        budget_of(f"{prefix}_s", prefix, ScopeKind.SESSION, {**limits, **narrow}),
        budget_of(
            f"{prefix}_w",
            prefix,
            ScopeKind.TENANT,
            {COST: rng.randint(PRICE, PRICE * calls)},
            window=Sliding(length_ms=rng.choice(SLIDING_MS), buckets=6),
        ),
        budget_of(
            f"{prefix}_n",
            prefix,
            ScopeKind.AGENT,
            {Unit.TOOL_CALLS: rng.randint(1, CLIENTS)},
            kind=BudgetKind.CONCURRENCY,
        ),
    ]


async def play(seed: int, stage: Stage) -> Counter[str]:
    """Play the story of `seed`; return what happened in it."""
    rng = random.Random(seed)
    prefix = f"w{seed}"
    budgets = _budgets(prefix, rng)
    for budget in budgets:
        await stage.put_budget(budget)
    clock = SteppingClock()
    world = World(
        stage=stage,
        rng=rng,
        clock=clock,
        upstream=CountingUpstream(rng, rng.random() < 0.5, clock),
        witness=Witness(
            {(b.budget_id, unit.value): limit for b in budgets for unit, limit in b.limits},
            spans_ms={
                b.budget_id: b.window.length_ms for b in budgets if isinstance(b.window, Sliding)
            },
        ),
        prefix=prefix,
        faults=Faults() if rng.random() < 0.9 else Faults(refused=200, unsaid=200, stalled=50),
    )
    for _ in range(rng.randrange(3)):
        await world.live(dies=True)
    await world.live(dies=False)
    await world.judge()
    return world.outcomes
