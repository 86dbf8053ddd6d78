import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import NOTHING, Unit
from governor.errors import InvalidTransitionError
from governor.events import Ended, Settled
from governor.reservation import (
    LIVE_STATES,
    TRANSITIONS,
    Reservation,
    ReservationEvent,
    ReservationState,
    next_state,
)
from governor.settlement import expire, forward, release, settle
from governor.usage import Usage
from tests.governor.makers import amounts, balance, held

ENDINGS = {ReservationEvent.SETTLE, ReservationEvent.RELEASE, ReservationEvent.EXPIRE}


def a_hold(unit: Unit = Unit.COST_MICROUSD, amount: int = 5) -> Reservation:
    account = balance(unit=unit, limit=100)
    return held([account], amounts(**{unit.value: amount})).reservation


def settle_unmeasured(hold: Reservation) -> Settled:
    return settle(hold, Usage(measured=NOTHING))


@pytest.mark.requirement("governor.is-pure")
@pytest.mark.requirement("reservation.ends-once")
@pytest.mark.parametrize(
    ("state", "event"), list(itertools.product(ReservationState, ReservationEvent))
)
def test_the_table_of_transitions_is_the_whole_truth(
    state: ReservationState, event: ReservationEvent
) -> None:
    is_allowed = state in LIVE_STATES and not (
        state is ReservationState.FORWARDED and event is ReservationEvent.FORWARD
    )

    assert ((state, event) in TRANSITIONS) is is_allowed
    if is_allowed:
        assert (next_state(state, event) in LIVE_STATES) is (event not in ENDINGS)
    else:
        with pytest.raises(InvalidTransitionError, match=f"is {state} cannot {event}"):
            next_state(state, event)


@pytest.mark.requirement("reservation.ends-once")
@pytest.mark.parametrize("end", [settle_unmeasured, release, expire])
def test_an_ended_reservation_cannot_be_ended_again(
    end: Callable[[Reservation], Ended],
) -> None:
    ended = end(a_hold()).reservation

    assert not ended.is_live
    for again in (forward, release, expire, settle_unmeasured):
        with pytest.raises(InvalidTransitionError):
            again(ended)


@pytest.mark.requirement("overrun.is-recorded")
@given(amount=st.integers(0, 100), used=st.integers(0, 1_000))
def test_settlement_charges_what_was_used_and_records_what_went_above(
    amount: int, used: int
) -> None:
    usage = Usage(measured=amounts(cost_microusd=used))

    (charge,) = settle(a_hold(amount=amount), usage).charges

    assert (charge.held, charge.charged) == (amount, used)
    assert charge.overrun == max(0, used - amount)


@pytest.mark.requirement("cancel.is-settled")
def test_a_unit_that_nobody_measured_is_charged_as_held() -> None:
    (charge,) = settle(a_hold(Unit.CPU_MS, 7), Usage(measured=NOTHING)).charges

    assert charge.charged == 7
    assert charge.overrun == 0


@pytest.mark.requirement("cancel.is-settled")
def test_a_unit_that_was_measured_as_zero_is_not_charged() -> None:
    (charge,) = settle(a_hold(Unit.CPU_MS, 7), Usage(measured=amounts(cpu_ms=0))).charges

    assert charge.charged == 0


@pytest.mark.requirement("turn.first-call-pays")
def test_a_turn_is_charged_as_it_was_decided_at_admission() -> None:
    turn = a_hold(Unit.TURNS, 1)

    assert settle(turn, Usage(measured=amounts(turns=0))).charges[0].charged == 1
    assert release(turn).charges[0].charged == 1


@pytest.mark.requirement("upstream.refused-is-released")
@given(amount=st.integers(0, 100))
def test_a_release_charges_nothing(amount: int) -> None:
    (charge,) = release(forward(a_hold(amount=amount))).charges

    assert (charge.held, charge.charged) == (amount, 0)


@pytest.mark.requirement("crash.forwarded-is-charged")
def test_a_forwarded_hold_that_expires_is_charged_in_full() -> None:
    expired = expire(forward(a_hold(amount=5)))

    assert [charge.charged for charge in expired.charges] == [5]
    assert expired.reservation.state is ReservationState.EXPIRED


@pytest.mark.requirement("crash.unforwarded-is-refunded")
def test_a_hold_that_never_left_is_refunded_when_it_expires() -> None:
    expired = expire(a_hold(amount=5))

    assert [charge.charged for charge in expired.charges] == [0]


def test_each_account_is_charged_for_its_own_unit() -> None:
    accounts = [balance("a", unit=Unit.COST_MICROUSD), balance("b", unit=Unit.WALL_MS)]
    hold = held(accounts, amounts(cost_microusd=5, wall_ms=6)).reservation

    charges = settle(hold, Usage(measured=amounts(wall_ms=9))).charges

    assert {charge.key.unit: charge.charged for charge in charges} == {
        Unit.COST_MICROUSD: 5,
        Unit.WALL_MS: 9,
    }
