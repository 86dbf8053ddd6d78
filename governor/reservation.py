"""Reservations, their states and the one table of the transitions between them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from governor.account import BalanceKey, Booking
from governor.errors import InvalidTransitionError
from governor.ids import CallId, ReservationId
from governor.rate import RateHold
from governor.scope import ScopeChain


class ReservationState(StrEnum):
    """Where a reservation stands. Only HELD and FORWARDED ones count against a budget."""

    HELD = "held"
    FORWARDED = "forwarded"
    SETTLED = "settled"
    RELEASED = "released"
    EXPIRED = "expired"


class ReservationEvent(StrEnum):
    """What can happen to a reservation."""

    FORWARD = "forward"
    SETTLE = "settle"
    RELEASE = "release"
    EXPIRE = "expire"


# A hold is marked FORWARDED before the first upstream byte, so that a crash in between
# can only charge too much, never lose a cost. A forwarded hold can still be released: an
# upstream that refused the connection provably consumed nothing. An ended reservation
# has no way out: it is ended exactly once.
TRANSITIONS: dict[tuple[ReservationState, ReservationEvent], ReservationState] = {
    (ReservationState.HELD, ReservationEvent.FORWARD): ReservationState.FORWARDED,
    (ReservationState.HELD, ReservationEvent.SETTLE): ReservationState.SETTLED,
    (ReservationState.HELD, ReservationEvent.RELEASE): ReservationState.RELEASED,
    (ReservationState.HELD, ReservationEvent.EXPIRE): ReservationState.EXPIRED,
    (ReservationState.FORWARDED, ReservationEvent.SETTLE): ReservationState.SETTLED,
    (ReservationState.FORWARDED, ReservationEvent.RELEASE): ReservationState.RELEASED,
    (ReservationState.FORWARDED, ReservationEvent.EXPIRE): ReservationState.EXPIRED,
}

LIVE_STATES = frozenset({ReservationState.HELD, ReservationState.FORWARDED})


def next_state(state: ReservationState, event: ReservationEvent) -> ReservationState:
    """Return the state after `event`.

    Raises:
        InvalidTransitionError: the table has no such transition.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        message = f"a reservation that is {state} cannot {event}"
        raise InvalidTransitionError(message) from None


class ReservationLine(NamedTuple):
    """How much is held on one account, and what ending it must know.

    `covered_at` is the depth in the chain of the session whose carve a DRAW comes out of.
    `ticks_per_unit` is what one unit moves the arrival time of a RATE.
    """

    key: BalanceKey
    amount: int
    booking: Booking = Booking.SPEND
    covered_at: int = 0
    ticks_per_unit: int = 0

    @property
    def rate_hold(self) -> RateHold:
        """Return what a line on a rate's account took; the account bears the rate's scale."""
        return RateHold(
            held=self.amount,
            ticks_per_unit=self.ticks_per_unit,
            ticks_per_ms=-self.key.window_start_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """An estimate held against every budget of a chain until it is ended once."""

    reservation_id: ReservationId
    call_id: CallId
    chain: ScopeChain
    state: ReservationState
    lines: tuple[ReservationLine, ...]
    expires_at_ms: int

    def after(self, event: ReservationEvent) -> "Reservation":
        """Return the reservation after `event`.

        Raises:
            InvalidTransitionError: the table has no such transition.
        """
        # Not `replace`, which costs several times what the rest of a settlement does.
        return Reservation(
            reservation_id=self.reservation_id,
            call_id=self.call_id,
            chain=self.chain,
            state=next_state(self.state, event),
            lines=self.lines,
            expires_at_ms=self.expires_at_ms,
        )

    def with_lines(self, lines: tuple[ReservationLine, ...]) -> "Reservation":
        """Return the reservation with `lines` as what it holds from now on."""
        return Reservation(
            reservation_id=self.reservation_id,
            call_id=self.call_id,
            chain=self.chain,
            state=self.state,
            lines=lines,
            expires_at_ms=self.expires_at_ms,
        )

    @property
    def is_live(self) -> bool:
        """Tell whether the hold still counts against its budgets."""
        return self.state in LIVE_STATES
