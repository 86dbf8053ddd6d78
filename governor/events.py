"""Immutable facts about reservations; balances are the fold of these."""

from dataclasses import dataclass

from governor.amounts import Amounts
from governor.budget import Balance, BalanceKey
from governor.reservation import Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What ending a reservation books on one account."""

    key: BalanceKey
    held: int
    charged: int

    @property
    def overrun(self) -> int:
        """Return how far the charge went above the hold."""
        return max(0, self.charged - self.held)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Every budget agreed and holds its part; `balances` is how they stand now."""

    reservation: Reservation
    amount: Amounts
    balances: tuple[Balance, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The reservation ended with what was used."""

    reservation: Reservation
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The reservation ended without use."""

    reservation: Reservation
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """Nobody ended the reservation in time."""

    reservation: Reservation
    charges: tuple[Charge, ...]


Ended = Settled | Released | Expired


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The client's idempotency key was seen before, with the same payload."""

    original: Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReused:
    """The client's idempotency key was seen before, with another payload."""

    original: Reservation
