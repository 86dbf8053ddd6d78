"""Immutable facts about reservations; balances are the fold of these."""

from dataclasses import dataclass
from typing import NamedTuple

from governor.account import Balance, BalanceKey
from governor.amounts import Amounts
from governor.denial import Shortage
from governor.reservation import Reservation, ReservationLine


class Charge(NamedTuple):
    """What ending a reservation books on one account."""

    line: ReservationLine
    held: int
    charged: int

    @property
    def key(self) -> BalanceKey:
        """Return the key of the account."""
        return self.line.key

    @property
    def overrun(self) -> int:
        """Return how far the charge went above the hold."""
        return max(0, self.charged - self.held)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Every budget agreed and holds its line of the reservation.

    `would_deny` are the shortages of budgets that only observe.
    """

    reservation: Reservation
    amount: Amounts
    would_deny: tuple[Shortage, ...] = ()


class Warned(NamedTuple):
    """A settlement brought an account to the threshold `at`."""

    balance: Balance
    at: int

    @property
    def permille(self) -> int:
        """Return the share of the limit that the threshold stands for, the highest of several."""
        account = self.balance.account
        shares = zip(account.warn_at, account.warn_at_permille, strict=True)
        return max(permille for at, permille in shares if at == self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """A reservation ended: what each of its postings frees of the hold and what it is charged."""

    reservation: Reservation
    freed: tuple[int, ...]
    charged: tuple[int, ...]

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Return what is booked on each account."""
        return tuple(map(Charge, self.reservation.lines, self.freed, self.charged))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(_Ending):
    """The reservation ended with what was used.

    A ledger adds how the accounts stand afterwards, and the thresholds that were reached.
    """

    standing: tuple[Balance, ...] = ()
    warned: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(_Ending):
    """The reservation ended without use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(_Ending):
    """Nobody ended the reservation in time."""


Ended = Settled | Released | Expired


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The client's idempotency key was seen before, with the same payload."""

    original: Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReused:
    """The client's idempotency key was seen before, with another payload."""

    original: Reservation
