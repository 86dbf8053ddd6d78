"""What a call was charged, and the record of one that nobody ended."""

from dataclasses import dataclass

from governor.amounts import NOTHING, Amounts, Unit
from governor.call import CallKind, CallRecord, CallStatus
from governor.ids import TurnId
from governor.reservation import Reservation, ReservationState
from governor.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A reservation with what the store keeps beside it.

    `amount` is everything that was admitted: the estimate and, if the call opened one, the turn.
    """

    reservation: Reservation
    name: str
    turn: TurnId | None
    estimate: Amounts
    amount: Amounts
    created_at_ms: int


def charged_when_settled(amount: Amounts, usage: Usage) -> Amounts:
    """Return what a settled call costs, whether or not a budget watched the unit.

    The same rule as on each account: measured where measured, else as held; the turn as held.
    """
    units = {unit for unit, _ in amount} | {unit for unit, _ in usage.measured}
    return Amounts(
        {
            unit: amount.of(unit)
            if unit is Unit.TURNS
            else usage.charge_for(unit, held=amount.of(unit))
            for unit in units
        }
    )


def charged_when_released(amount: Amounts) -> Amounts:
    """Return what a call costs that consumed nothing: at most the turn that it opened."""
    return Amounts({Unit.TURNS: amount.of(Unit.TURNS)})


def charged_when_expired(hold: Hold) -> Amounts:
    """Return what `hold` costs that nobody ended: all of it, once it was forwarded."""
    was_forwarded = hold.reservation.state is ReservationState.FORWARDED
    return hold.amount if was_forwarded else NOTHING


def expired_record(hold: Hold, *, now_ms: int) -> CallRecord:
    """Return the record of a call whose end nobody reported.

    The hold does not know the arguments, the rule and the backend: they stay empty.
    """
    was_forwarded = hold.reservation.state is ReservationState.FORWARDED
    # Only a model call holds tokens; the reservation itself does not say what was called.
    is_model = Unit.INPUT_TOKENS in hold.estimate or Unit.OUTPUT_TOKENS in hold.estimate
    return CallRecord(
        call_id=hold.reservation.call_id,
        kind=CallKind.MODEL if is_model else CallKind.TOOL,
        name=hold.name,
        chain=hold.reservation.chain,
        turn=hold.turn,
        status=CallStatus.EXPIRED,
        started_at_ms=hold.created_at_ms,
        ended_at_ms=now_ms,
        arguments="",
        backend="",
        rule="",
        policy_version="",
        estimate=hold.estimate,
        detail="nobody reported how the call ended; "
        + (
            "it was forwarded, so all that was held for it is charged"
            if was_forwarded
            else "it never left, so nothing is charged"
        ),
    )
