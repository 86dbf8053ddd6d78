"""What an agent's run is charged when it is over."""

import pytest

from governor.amounts import Unit
from governor.call import CallRecord, CallStatus, Enforcement, Isolated
from governor.events import Settled
from governor.ids import CallId, ReservationId
from governor.usage import Usage
from runtime.agent_runs.purse import Purse, Terms
from tests.governor.makers import Books as FoldedBooks
from tests.governor.makers import budget
from tests.tool_gateway.makers import CHAIN, LIMITS, RULE, FakeClock, FakeLedger
from tool_gateway.books import Books

pytestmark = pytest.mark.anyio

WALL = budget("wall", wall_ms=60_000)
WITHIN = Isolated(enforcement=Enforcement.ENFORCED, contained=True, by="cgroup", why="")


class SlowLedger(FakeLedger):
    """A ledger that takes five seconds for each settlement."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(FoldedBooks((WALL,)))
        self.clock = clock

    async def settle(
        self, reservation_id: ReservationId, usage: Usage, record: CallRecord
    ) -> Settled:
        self.clock.at_ms += 5_000
        return await super().settle(reservation_id, usage, record)


async def test_what_the_ledger_takes_at_the_end_is_not_the_agents_time() -> None:
    clock = FakeClock()
    ledger = SlowLedger(clock)
    terms = Terms(
        run_id=CallId("run_1"),
        chain=CHAIN,
        session_name="one",
        rule=RULE,
        policy_version="v1",
        limits=LIMITS,
        unmeasurable={},
        milliwatts_per_core=None,
        arguments="",
    )
    purse = Purse(terms=terms, books=Books(ledger=ledger, clock=clock), clock=clock)
    await purse.open()
    assert await purse.pay(1_000) is None
    clock.at_ms += 300

    usage = await purse.close(None, status=CallStatus.OK, detail="exit code 0", isolated=WITHIN)

    assert usage.measured.of(Unit.WALL_MS) == 300
    assert ledger.remaining(Unit.WALL_MS) == 60_000 - 300
    assert ledger.books.live == {}
