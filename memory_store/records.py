"""What a call was charged, and the record of one that nobody ended."""

from dataclasses import dataclass

from governor.amounts import Amounts, Unit
from governor.call import CallRecord, CallStatus
from governor.ids import TurnId
from governor.reservation import Reservation, ReservationState
from governor.target import CallTarget
from governor.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A reservation with what the store keeps beside it."""

    reservation: Reservation
    target: CallTarget
    turn: TurnId | None
    estimate: Amounts
    opens_turn: bool
    created_at_ms: int

    def with_reservation(self, reservation: Reservation) -> "Hold":
        """Return the hold with what became of the reservation."""
        return Hold(
            reservation=reservation,
            target=self.target,
            turn=self.turn,
            estimate=self.estimate,
            opens_turn=self.opens_turn,
            created_at_ms=self.created_at_ms,
        )

    @property
    def amount(self) -> Amounts:
        """Return everything that was admitted: the estimate and, if it opened one, the turn."""
        return self.estimate.plus(_ONE_TURN) if self.opens_turn else self.estimate


_ONE_TURN = Amounts({Unit.TURNS: 1})


def charged_when_settled(amount: Amounts, usage: Usage) -> Amounts:
    """Return what a settled call costs, whether or not a budget watched the unit.

    The same rule as on each account: measured where measured, else as held; the turn as held.
    """
    charged = {**amount.by_unit, **usage.measured.by_unit}
    if Unit.TURNS in charged:
        charged[Unit.TURNS] = amount.of(Unit.TURNS)
    return Amounts.checked(charged)


def charged_when_released(amount: Amounts) -> Amounts:
    """Return what a call costs that consumed nothing: at most the turn that it opened."""
    return Amounts({Unit.TURNS: amount.of(Unit.TURNS)})


def charged_when_expired(hold: Hold) -> Amounts:
    """Return what `hold` costs that nobody ended: all of it, once it was forwarded."""
    was_forwarded = hold.reservation.state is ReservationState.FORWARDED
    return hold.amount if was_forwarded else charged_when_released(hold.amount)


def expired_record(hold: Hold, *, now_ms: int) -> CallRecord:
    """Return the record of a call whose end nobody reported.

    The hold does not know the arguments and the rule: they stay empty.
    """
    was_forwarded = hold.reservation.state is ReservationState.FORWARDED
    return CallRecord(
        call_id=hold.reservation.call_id,
        kind=hold.target.kind,
        name=hold.target.name,
        chain=hold.reservation.chain,
        turn=hold.turn,
        status=CallStatus.EXPIRED,
        started_at_ms=hold.created_at_ms,
        ended_at_ms=now_ms,
        arguments="",
        backend=hold.target.upstream,
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
