"""A host clock that jumps by an hour while holds are live, and comes back."""

from pathlib import Path

import pytest
from proof.facts import Facts, Standing, check
from proof.stores import Ledger, Stage, StoreFactory
from proof.values import COST, budget_of, chain_of, record_for, request_of, usage_of

from governor.amounts import Unit
from governor.budget import BudgetKind
from governor.denial import Denied
from governor.errors import InvalidTransitionError
from governor.events import Reserved
from governor.reservation import Reservation
from governor.scope import ScopeKind
from governor.window import Fixed, Sliding

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

HOUR_MS, TTL_MS = 3_600_000, 60_000
# Well inside an hour, so that a minute more or less is the same hour.
NOON_MS = 1_000 * HOUR_MS + HOUR_MS // 2
LIMIT, HELD, USED = 10, 2, 1
CHAIN = chain_of("acme", "ada", "one")


async def _opened(stage: Stage) -> Ledger:
    hourly, last_hour = Fixed(HOUR_MS), Sliding(length_ms=HOUR_MS, buckets=6)
    for budget in (
        budget_of("ever", "acme", ScopeKind.TENANT, {COST: 10 * LIMIT}),
        budget_of("hourly", "acme", ScopeKind.TENANT, {COST: LIMIT}, window=hourly),
        budget_of("last_hour", "acme", ScopeKind.AGENT, {COST: LIMIT}, window=last_hour),
        budget_of(
            "at_once",
            "acme",
            ScopeKind.SESSION,
            {Unit.TOOL_CALLS: LIMIT},
            kind=BudgetKind.CONCURRENCY,
        ),
    ):
        await stage.put_budget(budget)
    return stage.ledger


async def _admit(ledger: Ledger, name: str, now_ms: int) -> Reserved | Denied:
    asked = request_of(name, CHAIN, {COST: HELD}, now_ms=now_ms, expires_at_ms=now_ms + TTL_MS)
    decision = await ledger.admit(asked)
    assert isinstance(decision, Reserved | Denied)
    return decision


async def _forwarded(ledger: Ledger, name: str, now_ms: int) -> Reservation:
    decision = await _admit(ledger, name, now_ms)
    assert isinstance(decision, Reserved)
    reservation = decision.reservation
    await ledger.forward(reservation.reservation_id)
    return reservation


async def _settle(ledger: Ledger, held: Reservation, now_ms: int) -> None:
    usage = usage_of({COST: USED})
    record = record_for(held.call_id, CHAIN, ended_at_ms=now_ms, usage=usage)
    await ledger.settle(held.reservation_id, usage, record)


async def _admitted(ledger: Ledger, name: str, now_ms: int) -> int:
    """Ask until denied; return how many calls were let in."""
    for number in range(LIMIT):
        if isinstance(await _admit(ledger, f"{name}_{number}", now_ms), Denied):
            return number
    raise AssertionError


def _of(facts: Facts, budget_id: str) -> dict[int, Standing]:
    """Return how the windows of a budget stand that were ever used."""
    return {
        key.window_start_ms: standing
        for key, standing in facts.accounts.items()
        if key.budget_id == budget_id and any(standing)
    }


@pytest.mark.requirement("proof.clock-steps")
async def test_an_hour_forward_and_back_ends_each_hold_once_and_opens_no_hour_twice(
    factory: StoreFactory, tmp_path: Path
) -> None:
    async with factory.open(tmp_path) as stage:
        ledger = await _opened(stage)
        late = await _forwarded(ledger, "late", NOON_MS)
        assert isinstance(await _admit(ledger, "never_left", NOON_MS), Reserved)

        ahead_ms, back_ms = NOON_MS + HOUR_MS, NOON_MS + 1_000
        ended = await ledger.expire_due(now_ms=ahead_ms)
        new = await _forwarded(ledger, "new", ahead_ms)
        denied = await _admit(ledger, "too_early", back_ms)
        ended_again = await ledger.expire_due(now_ms=back_ms)
        with pytest.raises(InvalidTransitionError):
            await _settle(ledger, late, back_ms)
        await _settle(ledger, new, back_ms)
        # Both charges are of the last hour, however the clock went meanwhile.
        caught_up = await _admitted(ledger, "caught_up", ahead_ms - 4_000)

        assert len(ended) == 2
        assert ended_again == ()
        assert isinstance(denied, Denied)
        assert denied.reason == "clock_stepped_back"
        assert caught_up == (LIMIT - HELD - USED) // HELD
        facts = await stage.facts("acme")
        check(facts)
        first_ms, second_ms = NOON_MS - HOUR_MS // 2, ahead_ms - HOUR_MS // 2
        assert _of(facts, "hourly") == {
            first_ms: Standing(settled=HELD),
            second_ms: Standing(settled=USED, reserved=HELD * caught_up),
        }
        assert _of(facts, "at_once") == {1: Standing(reserved=caught_up)}


@pytest.mark.requirement("proof.clock-steps")
async def test_an_hour_back_and_forward_is_as_if_the_clock_had_never_moved(
    factory: StoreFactory, tmp_path: Path
) -> None:
    async with factory.open(tmp_path) as stage:
        ledger = await _opened(stage)
        running = await _forwarded(ledger, "running", NOON_MS)
        assert isinstance(await _admit(ledger, "never_left", NOON_MS), Reserved)

        back_ms = NOON_MS - HOUR_MS
        denied = await _admit(ledger, "too_early", back_ms)
        ended_early = await ledger.expire_due(now_ms=back_ms)
        await _settle(ledger, running, back_ms + 1_000)
        with pytest.raises(InvalidTransitionError):
            await _settle(ledger, running, back_ms + 1_000)
        admitted = await _admitted(ledger, "again", NOON_MS + 1_000)
        ended = await ledger.expire_due(now_ms=NOON_MS + TTL_MS)

        assert isinstance(denied, Denied)
        assert denied.reason == "clock_stepped_back"
        assert ended_early == ()
        assert [one.reservation.reservation_id for one in ended] == ["res_never_left"]
        assert admitted == (LIMIT - USED - HELD) // HELD
        facts = await stage.facts("acme")
        check(facts)
        assert _of(facts, "hourly") == {
            NOON_MS - HOUR_MS // 2: Standing(settled=USED, reserved=HELD * admitted)
        }
        assert sum(one.settled for one in _of(facts, "last_hour").values()) == USED
