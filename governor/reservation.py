"""Reservations, their states and the one table of the transitions between them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from governor.account import BalanceKey, Booking, Posting
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


# A hold is marked FORWARDED before the first upstream byte (as it is held, where nothing else is
# to be stored before), so that a crash can only charge too much, never lose a cost. Between the
# mark and that byte a server may be started and a token be got: a crash there charges for nothing,
# any other end there releases. So does an upstream that refused the connection: it provably
# consumed nothing. An ended reservation has no way out: it is ended exactly once.
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
    """How much is held on one account."""

    posting: Posting
    amount: int

    @property
    def key(self) -> BalanceKey:
        """Return the key of the account."""
        return self.posting.key

    @property
    def booking(self) -> Booking:
        """Return how the amount moves on the account."""
        return self.posting.booking

    @property
    def rate_hold(self) -> RateHold:
        """Return what a line on a rate's account took; the account bears the rate's scale."""
        return RateHold(
            held=self.amount,
            ticks_per_unit=self.posting.ticks_per_unit,
            ticks_per_ms=-self.posting.key.window_start_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """An estimate held against every budget of a chain until it is ended once.

    `held` is the amount on each of `postings`. The two are apart because most calls of a
    chain share their postings and differ in amounts alone, and there is one of each for every
    budget and unit above a call.
    """

    reservation_id: ReservationId
    call_id: CallId
    chain: ScopeChain
    state: ReservationState
    postings: tuple[Posting, ...]
    held: tuple[int, ...]
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
            postings=self.postings,
            held=self.held,
            expires_at_ms=self.expires_at_ms,
        )

    def holding(
        self, held: tuple[int, ...], *, on: tuple[Posting, ...] | None = None
    ) -> "Reservation":
        """Return the reservation with `held` as what it holds from now on."""
        return Reservation(
            reservation_id=self.reservation_id,
            call_id=self.call_id,
            chain=self.chain,
            state=self.state,
            postings=self.postings if on is None else on,
            held=held,
            expires_at_ms=self.expires_at_ms,
        )

    @property
    def lines(self) -> tuple[ReservationLine, ...]:
        """Return each amount with where it is held."""
        return tuple(map(ReservationLine, self.postings, self.held))

    @property
    def is_live(self) -> bool:
        """Tell whether the hold still counts against its budgets."""
        return self.state in LIVE_STATES
