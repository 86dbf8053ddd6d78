"""A provider that counts what is really spent, and the crowd of clients that spend it.

The provider knows the limits and nothing of the ledger: it says on which accounts each
call is charged by its own arithmetic, and complains the moment that one is exceeded.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
from proof.facts import Key, check
from proof.stores import Ledger, Stage
from proof.values import (
    CALLS,
    COST,
    TOKENS,
    UNITS,
    budget_of,
    chain_of,
    record_for,
    request_of,
    usage_of,
)

from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.denial import Denied
from governor.events import Reserved
from governor.scope import ScopeChain, ScopeKind
from governor.window import Fixed

TENANT = "acme"
HOT, EACH_AGENT, EACH_SESSION = "hot", "each_agent", "each_session"
AGENTS = 8
# The clock moves by this at each attempt; the hot budget starts anew at each window.
TICK_MS = 1
WINDOW_MS = 2_000
START_MS = 10 * WINDOW_MS
TTL_MS = 60_000
COST_MAX, TOKENS_MAX = 50, 200


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How large a crowd, and whether it keeps to what was held for it."""

    reservations: int
    clients: int = 64
    sessions: int = 1_000
    sub_sessions: int = 0
    spends_beyond: bool = False
    seed: int = 0


@dataclass
class Provider:
    """What was really spent, account by account, and what may be."""

    limits: Mapping[str, Mapping[Unit, int]]
    may_exceed: bool
    spent: Counter[Key] = field(default_factory=Counter)
    beyond: Counter[Key] = field(default_factory=Counter)
    over: list[str] = field(default_factory=list)

    def spend(
        self, accounts: list[Key], used: Mapping[Unit, int], held: Mapping[Unit, int]
    ) -> None:
        for key in accounts:
            unit = Unit(key.unit)
            self.spent[key] += used[unit]
            self.beyond[key] += max(0, used[unit] - held[unit])
            limit = self.limits[key.budget_id][unit]
            if self.spent[key] > limit + (self.beyond[key] if self.may_exceed else 0):
                self.over.append(f"{key}: {self.spent[key]} of {limit}")


@dataclass
class Crowd:
    """The clients, their clock and what became of their calls."""

    stage: Stage
    plan: Plan
    provider: Provider
    chains: list[ScopeChain]
    now_ms: int = START_MS
    granted: int = 0
    denied: int = 0
    attempts: int = 0
    settled: dict[Key, int] = field(default_factory=lambda: defaultdict(int))

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for number in range(self.plan.clients):
                group.start_soon(self._client, number)
        self.now_ms += TTL_MS + 1
        await self.stage.ledger.expire_due(now_ms=self.now_ms)
        for chain in self.chains:
            if chain.ancestors:
                await self.stage.close_session(chain.session, now_ms=self.now_ms)

    async def _client(self, number: int) -> None:
        rng = random.Random(f"{self.plan.seed}/{number}")
        ledger = self.stage.ledger
        while self.granted < self.plan.reservations:
            self.attempts += 1
            assert self.attempts < 20 * self.plan.reservations, "almost everything is denied"
            self.now_ms += TICK_MS
            # Some sessions are far busier than others, so that some run dry.
            chain = self.chains[int(len(self.chains) * rng.random() ** 2)]
            held = {COST: rng.randint(1, COST_MAX), TOKENS: rng.randint(0, TOKENS_MAX), CALLS: 1}
            asked = request_of(
                f"{number}_{self.attempts}",
                chain,
                held,
                now_ms=self.now_ms,
                expires_at_ms=self.now_ms + TTL_MS,
            )
            decision = await ledger.admit(asked)
            if isinstance(decision, Denied):
                self.denied += 1
                # A denial is an answer, not a pause: let the others have their turn.
                await anyio.lowlevel.checkpoint()
                continue
            assert isinstance(decision, Reserved), decision
            self.granted += 1
            await self._run_call(ledger, rng, asked, held)

    async def _run_call(
        self,
        ledger: Ledger,
        rng: random.Random,
        asked: AdmissionRequest,
        held: dict[Unit, int],
    ) -> None:
        reservation_id, accounts = asked.reservation_id, accounts_of(asked.chain, asked.now_ms)
        fate = rng.random()
        if fate < 0.05:
            record = record_for(asked.call_id, asked.chain, ended_at_ms=self.now_ms, usage=None)
            await ledger.release(reservation_id, record)
            return
        if fate < 0.07:
            return  # it never leaves, and the reaper gives it back
        await ledger.forward(reservation_id)
        used = {unit: rng.randint(0, amount) for unit, amount in held.items()}
        used[CALLS] = 1
        if self.plan.spends_beyond and rng.random() < 0.3:
            used = {unit: amount + rng.randint(0, 3 * amount) for unit, amount in held.items()}
        if fate < 0.10:
            # The client dies here: the reaper charges what was held.
            self.provider.spend(accounts, {**held}, held)
            self._charged(accounts, held)
            return
        self.provider.spend(accounts, used, held)
        usage = usage_of(used)
        record = record_for(asked.call_id, asked.chain, ended_at_ms=self.now_ms, usage=usage)
        await ledger.settle(reservation_id, usage, record)
        self._charged(accounts, used)

    def _charged(self, accounts: list[Key], charged: Mapping[Unit, int]) -> None:
        for key in accounts:
            self.settled[key] += charged[Unit(key.unit)]

    async def judge(self) -> None:
        """Assert that the provider never gave more than a limit, and that the books agree."""
        assert self.provider.over == []
        assert self.granted >= self.plan.reservations
        assert self.denied > self.granted // 10, "the limits must be tight"
        facts = await self.stage.facts()
        check(facts, now_ms=self.now_ms, levels=(EACH_AGENT, EACH_SESSION))
        assert all(standing.reserved == 0 for standing in facts.accounts.values())
        booked = {key: one.settled for key, one in facts.accounts.items() if one.settled}
        assert booked == {key: total for key, total in self.settled.items() if total}
        overruns = {key: one.overrun for key, one in facts.accounts.items() if one.overrun}
        assert overruns == {key: total for key, total in self.provider.beyond.items() if total}


def accounts_of(chain: ScopeChain, now_ms: int) -> list[Key]:
    """Return where a call is charged, by this file's own reading of the budgets."""
    window = now_ms // WINDOW_MS * WINDOW_MS
    root, *below = (*chain.ancestors, chain.session)
    places = [(HOT, TENANT, window), (EACH_AGENT, chain.agent, 0), (EACH_SESSION, root, 0)]
    places += [(f"carve:{session}", session, 0) for session in below]
    return [
        Key(budget, subject, unit.value, at) for budget, subject, at in places for unit in UNITS
    ]


def _limits(plan: Plan) -> dict[str, dict[Unit, int]]:
    """Return limits that deny about every third attempt, on every level."""
    attempts = WINDOW_MS // TICK_MS
    each_session = plan.reservations // plan.sessions
    each_agent = plan.reservations // AGENTS
    return {
        HOT: {COST: attempts * 9, TOKENS: attempts * 50, CALLS: attempts * 3 // 4},
        EACH_AGENT: {
            COST: each_agent * COST_MAX,
            TOKENS: each_agent * TOKENS_MAX,
            CALLS: each_agent * 3 // 2,
        },
        EACH_SESSION: {
            COST: each_session * 60 + COST_MAX,
            TOKENS: each_session * 300 + TOKENS_MAX,
            CALLS: each_session * 3 + 1,
        },
    }


async def crowd_on(stage: Stage, plan: Plan) -> Crowd:
    """Return the crowd, its budgets in force and its sub-sessions carved out."""
    limits = _limits(plan)
    scopes = {
        HOT: ScopeKind.TENANT,
        EACH_AGENT: ScopeKind.AGENT,
        EACH_SESSION: ScopeKind.SESSION,
    }
    for name, scope in scopes.items():
        window = Fixed(WINDOW_MS) if name == HOT else None
        await stage.put_budget(budget_of(name, TENANT, scope, limits[name], window=window))
    chains = [
        chain_of(TENANT, f"agent_{number % AGENTS}", f"session_{number}")
        for number in range(plan.sessions)
    ]
    carve = {unit: limit // 3 + 1 for unit, limit in limits[EACH_SESSION].items()}
    for number in range(plan.sub_sessions):
        sub = await stage.spawn(
            chains[2 * number], f"sub_{number}", carve, now_ms=number * WINDOW_MS
        )
        limits[f"carve:{sub.session}"] = carve
        # In the busy part of the list, beside its parent.
        chains.insert(2 * number, sub)
    crowd = Crowd(
        stage=stage, plan=plan, provider=Provider(limits, plan.spends_beyond), chains=chains
    )
    # Each carve was made in a window of its own, which has room for it.
    crowd.now_ms += plan.sub_sessions * WINDOW_MS
    return crowd
