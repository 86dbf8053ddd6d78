"""The three ways a reservation ends, each exactly once."""

from dataclasses import replace

from governor.amounts import Unit
from governor.events import Charge, Expired, Released, Settled
from governor.reservation import Reservation, ReservationEvent, ReservationState, next_state
from governor.usage import Usage


def forward(reservation: Reservation) -> Reservation:
    """Return the reservation, marked before the first upstream byte."""
    return _moved(reservation, ReservationEvent.FORWARD)


def settle(reservation: Reservation, usage: Usage) -> Settled:
    """Return the charges for `usage`; what goes above the hold is recorded, never refused.

    A turn is charged as held: whether the call opened one was decided at admission.
    """
    charges = tuple(
        Charge(
            key=line.key,
            held=line.amount,
            charged=(
                line.amount
                if line.key.unit is Unit.TURNS
                else usage.charge_for(line.key.unit, held=line.amount)
            ),
        )
        for line in reservation.lines
    )
    return Settled(reservation=_moved(reservation, ReservationEvent.SETTLE), charges=charges)


def release(reservation: Reservation) -> Released:
    """Return the refund of a call that provably consumed nothing.

    The turn stays charged: the exchange that caused the call took place, and later calls
    of the same turn ride on it.
    """
    charges = tuple(
        Charge(
            key=line.key,
            held=line.amount,
            charged=line.amount if line.key.unit is Unit.TURNS else 0,
        )
        for line in reservation.lines
    )
    return Released(reservation=_moved(reservation, ReservationEvent.RELEASE), charges=charges)


def expire(reservation: Reservation) -> Expired:
    """Return what a reservation costs that nobody ended in time.

    One that was forwarded is charged in full, because crashing would otherwise be free
    use; one that never left is refunded.
    """
    was_forwarded = reservation.state is ReservationState.FORWARDED
    charges = tuple(
        Charge(key=line.key, held=line.amount, charged=line.amount if was_forwarded else 0)
        for line in reservation.lines
    )
    return Expired(reservation=_moved(reservation, ReservationEvent.EXPIRE), charges=charges)


def _moved(reservation: Reservation, event: ReservationEvent) -> Reservation:
    return replace(reservation, state=next_state(reservation.state, event))
