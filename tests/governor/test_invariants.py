"""The invariants, over random interleavings of everything that can happen to reservations."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from governor.admission import admit
from governor.amounts import Amounts, Unit
from governor.denial import Denied
from governor.events import Reserved
from governor.ids import PrincipalId, SessionId
from governor.reservation import ReservationState
from governor.scope import ScopeChain, ScopeKind
from governor.settlement import expire, forward, release, settle
from governor.usage import Usage
from governor.window import Fixed
from tests.governor.makers import TENANT, Books, budget, request

WINDOW = Fixed(1_000)
BUDGETS = (
    budget("a-quota", tool_calls=40, cost_microusd=120, turns=9),
    budget("b-hourly", window=WINDOW, tool_calls=12),
    budget("c-each-agent", scope=ScopeKind.AGENT, tool_calls=20, cost_microusd=60),
    budget("d-ada", scope=ScopeKind.AGENT, subject="ada", tool_calls=15),
    budget("e-each-session", scope=ScopeKind.SESSION, tool_calls=9, cost_microusd=30, turns=3),
)
CHAINS = tuple(
    ScopeChain(tenant=TENANT, agent=PrincipalId(agent), session=SessionId(f"{agent}/{session}"))
    for agent in ("ada", "bob")
    for session in ("one", "two")
)
SMALL = st.integers(0, 8)


class Interleavings(RuleBasedStateMachine):
    """Many calls at once: held, forwarded, ended in any order, with time passing."""

    def __init__(self) -> None:
        super().__init__()
        self.books = Books(BUDGETS)
        self.now_ms = 5_000
        self.number = 0
        self.turns_seen: set[tuple[str, str]] = set()

    @rule(
        chain=st.sampled_from(CHAINS),
        calls=SMALL,
        cost=st.integers(0, 30),
        turn=st.sampled_from(("t1", "t2", "t3", "t4")),
    )
    def admit(self, chain: ScopeChain, calls: int, cost: int, turn: str) -> None:
        self.number += 1
        estimate = Amounts({Unit.TOOL_CALLS: calls, Unit.COST_MICROUSD: cost})
        asked = request(estimate, number=self.number, chain=chain, turn=turn, now_ms=self.now_ms)
        before = self.books.balances(chain, self.now_ms)

        is_turn_new = (chain.session, turn) not in self.turns_seen
        decision = admit(asked, before, is_turn_new=is_turn_new)

        match decision:
            case Reserved():
                self.books.note(decision)
                self.turns_seen.add((chain.session, turn))
                after = self.books.balances(chain, self.now_ms)
                by_key = {line.key: line.amount for line in decision.reservation.lines}
                assert [one.reserved for one in after] == [
                    one.reserved + by_key[one.key] for one in before
                ], "a balance is the fold of its events"
                assert all(account.remaining >= 0 for account in after), "within every limit"
            case Denied():
                assert self.books.balances(chain, self.now_ms) == before

    @precondition(lambda self: self.books.live)
    @rule(data=st.data(), calls=st.integers(0, 12), cost=st.none() | st.integers(0, 60))
    def end(self, data: st.DataObject, calls: int, cost: int | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.books.live)))
        hold = self.books.live[name]
        measured = {Unit.TOOL_CALLS: calls}
        if cost is not None:
            measured[Unit.COST_MICROUSD] = cost
        how = data.draw(st.sampled_from(("forward", "settle", "release", "expire")))
        match how:
            case "forward" if hold.state is ReservationState.HELD:
                self.books.live[name] = forward(hold)
            case "settle":
                self.books.note(settle(hold, Usage(measured=Amounts(measured))))
            case "release":
                self.books.note(release(hold))
            case "expire":
                self.books.note(expire(hold))

    @rule(step_ms=st.integers(1, 700))
    def pass_time(self, step_ms: int) -> None:
        self.now_ms += step_ms

    @invariant()
    def every_reservation_ends_at_most_once(self) -> None:
        for name, endings in self.books.endings.items():
            assert len(endings) == (0 if name in self.books.live else 1)

    @invariant()
    def settled_never_passes_the_limit_by_more_than_the_overruns(self) -> None:
        limits = {one.budget_id: one.limits for one in BUDGETS}
        for key, settled in self.books.settled.items():
            limit = limits[key.budget_id].of(key.unit)
            assert settled <= limit + self.books.overrun[key]

    @invariant()
    def holds_add_up_to_what_is_reserved(self) -> None:
        for key, reserved in self.books.reserved.items():
            lines = [line for hold in self.books.live.values() for line in hold.lines]
            assert reserved == sum(line.amount for line in lines if line.key == key)

    @invariant()
    def sessions_within_their_tenant(self) -> None:
        for unit in (Unit.TOOL_CALLS, Unit.COST_MICROUSD, Unit.TURNS):
            assert self._settled("e-each-session", unit) == self._settled("a-quota", unit)

    @invariant()
    def an_agent_within_the_tenant(self) -> None:
        ada = self._settled("d-ada", Unit.TOOL_CALLS)
        each = {
            key.subject: settled
            for key, settled in self.books.settled.items()
            if key.budget_id == "c-each-agent" and key.unit is Unit.TOOL_CALLS
        }
        assert ada == each.get("ada", 0) <= self._settled("a-quota", Unit.TOOL_CALLS)

    def _settled(self, budget_id: str, unit: Unit) -> int:
        return sum(
            settled
            for key, settled in self.books.settled.items()
            if key.budget_id == budget_id and key.unit is unit
        )


@pytest.mark.requirement("budget.never-overrun")
@pytest.mark.requirement("reservation.ends-once")
@pytest.mark.requirement("reservation.id-unique")
@pytest.mark.requirement("balance.is-fold")
@pytest.mark.requirement("denial.changes-nothing")
@pytest.mark.requirement("scope.child-within-parent")
class TestInvariantsHoldOverRandomInterleavings(Interleavings.TestCase):
    settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
