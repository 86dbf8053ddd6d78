"""The three ways a reservation ends, each exactly once."""

from collections.abc import Sequence

from governor.account import Booking, Posting
from governor.amounts import Unit
from governor.events import Expired, Released, Settled
from governor.reservation import Reservation, ReservationEvent, ReservationState
from governor.usage import Usage

# Read once: looking a member up in its enumeration costs more than comparing with it.
_TURNS, _SLOT, _DRAW = Unit.TURNS, Booking.SLOT, Booking.DRAW


def forward(reservation: Reservation) -> Reservation:
    """Return the reservation, marked before the first upstream byte."""
    return reservation.after(ReservationEvent.FORWARD)


def settle(reservation: Reservation, usage: Usage) -> Settled:
    """Return the charges for `usage`; what goes above the hold is recorded, never refused.

    A turn is charged as held: whether the call opened one was decided at admission.
    """
    moved = reservation.after(ReservationEvent.SETTLE)
    measured = usage.measured.by_unit
    used = []
    for posting, amount in zip(reservation.postings, reservation.held, strict=True):
        unit = posting[0][2]
        spent = amount if unit is _TURNS else measured.get(unit, amount)
        used.append(spent)
    return Settled(
        reservation=moved,
        freed=_freed(reservation, used),
        charged=_charged(reservation.postings, used),
    )


def release(reservation: Reservation) -> Released:
    """Return the refund of a call that provably consumed nothing.

    The turn stays charged: the exchange that caused the call took place, and later calls
    of the same turn ride on it.
    """
    used = _turns_alone(reservation)
    return Released(
        reservation=reservation.after(ReservationEvent.RELEASE),
        freed=_freed(reservation, used),
        charged=_charged(reservation.postings, used),
    )


def expire(reservation: Reservation) -> Expired:
    """Return what a reservation costs that nobody ended in time.

    One that was forwarded is charged in full, because crashing would otherwise be free
    use; one that never left is refunded, but for the turn: other calls may ride on it.
    """
    was_forwarded = reservation.state is ReservationState.FORWARDED
    used = list(reservation.held) if was_forwarded else _turns_alone(reservation)
    return Expired(
        reservation=reservation.after(ReservationEvent.EXPIRE),
        freed=_freed(reservation, used),
        charged=_charged(reservation.postings, used),
    )


def _turns_alone(reservation: Reservation) -> list[int]:
    """Return what is held in turns, and nothing of any other unit."""
    return [
        amount if posting.key.unit is _TURNS else 0
        for posting, amount in zip(reservation.postings, reservation.held, strict=True)
    ]


def _freed(reservation: Reservation, used: Sequence[int]) -> tuple[int, ...]:
    """Return what each posting frees of its hold: all, but of what a carve holds.

    What is not used of that, the carve holds for the next call of the sub-session.
    """
    return tuple(
        [
            spent if posting[1] is _DRAW and spent < amount else amount
            for posting, amount, spent in zip(
                reservation.postings, reservation.held, used, strict=True
            )
        ]
    )


def _charged(postings: Sequence[Posting], used: Sequence[int]) -> tuple[int, ...]:
    """Return what each posting is charged: what was used, but for a slot, which nobody pays."""
    return tuple(
        [0 if posting[1] is _SLOT else spent for posting, spent in zip(postings, used, strict=True)]
    )
