"""The three ways a reservation ends, each exactly once."""

from governor.account import Booking
from governor.amounts import Unit
from governor.events import Charge, Expired, Released, Settled
from governor.reservation import (
    Reservation,
    ReservationEvent,
    ReservationLine,
    ReservationState,
)
from governor.usage import Usage

# Read once: looking a member up in its enumeration costs more than comparing with it. And a
# named tuple is made twice as fast as a tuple as by its name; there is one for each account.
_make = tuple.__new__
_TURNS, _SPEND, _DRAW = Unit.TURNS, Booking.SPEND, Booking.DRAW


def forward(reservation: Reservation) -> Reservation:
    """Return the reservation, marked before the first upstream byte."""
    return reservation.after(ReservationEvent.FORWARD)


def settle(reservation: Reservation, usage: Usage) -> Settled:
    """Return the charges for `usage`; what goes above the hold is recorded, never refused.

    A turn is charged as held: whether the call opened one was decided at admission.
    """
    moved = reservation.after(ReservationEvent.SETTLE)
    measured = usage.measured.by_unit
    charges = []
    for line in reservation.lines:
        key, amount, booking, _, _ = line
        unit = key[2]
        used = amount if unit is _TURNS else measured.get(unit, amount)
        if booking is _SPEND:
            charges.append(_make(Charge, (line, amount, used)))
        elif booking is _DRAW:
            charges.append(_make(Charge, (line, min(used, amount), used)))
        else:
            charges.append(_charge(line, used))
    return Settled(reservation=moved, charges=tuple(charges))


def release(reservation: Reservation) -> Released:
    """Return the refund of a call that provably consumed nothing.

    The turn stays charged: the exchange that caused the call took place, and later calls
    of the same turn ride on it.
    """
    charges = tuple(
        _charge(line, line.amount if line.key.unit is Unit.TURNS else 0)
        for line in reservation.lines
    )
    return Released(reservation=reservation.after(ReservationEvent.RELEASE), charges=charges)


def expire(reservation: Reservation) -> Expired:
    """Return what a reservation costs that nobody ended in time.

    One that was forwarded is charged in full, because crashing would otherwise be free
    use; one that never left is refunded.
    """
    was_forwarded = reservation.state is ReservationState.FORWARDED
    charges = tuple(
        _charge(line, line.amount if was_forwarded else 0) for line in reservation.lines
    )
    return Expired(reservation=reservation.after(ReservationEvent.EXPIRE), charges=charges)


def _charge(line: ReservationLine, used: int) -> Charge:
    """Return what a line frees and books when `used` was used."""
    match line.booking:
        case Booking.SPEND | Booking.RATE:
            return Charge(line, line.amount, used)
        case Booking.SLOT:
            return Charge(line, line.amount, 0)
        case Booking.DRAW:
            # The carve holds what is not used for the next call of the sub-session.
            return Charge(line, min(used, line.amount), used)
