"""The lines of a reservation and the entries of the journal, as short text.

A hold over a dozen accounts is written twice and read seldom, so it is a line of numbers
rather than rows of their own: `17:300` is 300 held on account 17. A suffix says what is
not a plain hold: `s` a slot, `d2` drawn from the carve of the chain's session 2, `r60` a
rate of which a unit moves the arrival time by 60.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from governor.account import BalanceKey, Booking
from governor.events import Charge
from governor.reservation import ReservationLine

_SPEND = Booking.SPEND


def written(accounts: Sequence[int], lines: Sequence[ReservationLine]) -> str:
    """Return `lines`, each on the account of the number beside it, as text."""
    return " ".join(
        [
            f"{account}:{line[1]}" if line[2] is _SPEND else f"{account}:{line[1]}:{_suffix(line)}"
            for account, line in zip(accounts, lines, strict=True)
        ]
    )


def charged(accounts: Sequence[int], charges: Sequence[Charge]) -> str:
    """Return `charges` as text: account, freed, booked."""
    return " ".join(
        [
            f"{account}:{held}:{booked}"
            if line[2] is _SPEND
            else f"{account}:{held}:{booked}:{_suffix(line)}"
            for account, (line, held, booked) in zip(accounts, charges, strict=True)
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLine:
    """One line as it stands in the text, its account still a number."""

    account: int
    amount: int
    booking: Booking
    covered_at: int
    ticks_per_unit: int

    def on(self, key: BalanceKey) -> ReservationLine:
        """Return the line on the account that the number stands for."""
        return ReservationLine(key, self.amount, self.booking, self.covered_at, self.ticks_per_unit)


def read(text: str) -> Iterator[WrittenLine]:
    """Yield the lines that `written` wrote."""
    for part in text.split():
        account, amount, *suffix = part.split(":")
        yield _read(int(account), int(amount), "".join(suffix))


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCharge:
    """One charge as it stands in the journal."""

    account: int
    held: int
    charged: int
    booking: Booking


def read_charges(parts: Iterable[str]) -> Iterator[WrittenCharge]:
    """Yield the charges that `charged` wrote."""
    for part in parts:
        account, held, booked, *suffix = part.split(":")
        booking = _read(int(account), 0, "".join(suffix)).booking
        yield WrittenCharge(
            account=int(account), held=int(held), charged=int(booked), booking=booking
        )


_LETTERS = {Booking.SLOT: "s", Booking.DRAW: "d", Booking.RATE: "r"}
_BOOKINGS = {letter: booking for booking, letter in _LETTERS.items()}


def _suffix(line: ReservationLine) -> str:
    return _suffix_of(line[2], line[3] or line[4])


@lru_cache(maxsize=1024)
def _suffix_of(booking: Booking, number: int) -> str:
    return f"{_LETTERS[booking]}{number or ''}"


def _read(account: int, amount: int, suffix: str) -> WrittenLine:
    booking = _BOOKINGS[suffix[0]] if suffix else Booking.SPEND
    number = int(suffix[1:]) if len(suffix) > 1 else 0
    return WrittenLine(
        account=account,
        amount=amount,
        booking=booking,
        covered_at=number if booking is Booking.DRAW else 0,
        ticks_per_unit=number if booking is Booking.RATE else 0,
    )
