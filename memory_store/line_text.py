"""The lines of a reservation and the entries of the journal, as short text.

A hold over a dozen accounts is written twice and read seldom, so it is a line of numbers
rather than rows of their own: `17:300` is 300 held on account 17. A suffix says what is
not a plain hold: `s` a slot, `d2` drawn from the carve of the chain's session 2, `r60` a
rate of which a unit moves the arrival time by 60.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from governor.account import BalanceKey, Booking, Posting


def form_of(accounts: Sequence[int], postings: Sequence[Posting], *, figures: int) -> str:
    """Return the text of lines on the accounts of those numbers, with `%d` for each figure.

    A line has one figure, the amount held; a charge has two, what is freed and what is booked.
    All calls of a kind in a chain share the form, so that only their figures are written anew.
    """
    blank = ":%d" * figures
    return " ".join(
        f"{account}{blank}{_suffix(posting)}"
        for account, posting in zip(accounts, postings, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLine:
    """One line as it stands in the text, its account still a number."""

    account: int
    amount: int
    booking: Booking
    covered_at: int
    ticks_per_unit: int

    def posting(self, key: BalanceKey) -> Posting:
        """Return where the line is booked: on the account that the number stands for."""
        return Posting(key, self.booking, self.covered_at, self.ticks_per_unit)


def read(text: str) -> Iterator[WrittenLine]:
    """Yield the lines of a form with one figure."""
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
    """Yield the charges of a form with two figures."""
    for part in parts:
        account, held, booked, *suffix = part.split(":")
        booking = _read(int(account), 0, "".join(suffix)).booking
        yield WrittenCharge(
            account=int(account), held=int(held), charged=int(booked), booking=booking
        )


def charged(parts: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the account and what was booked of each charge, for whoever adds up very many."""
    for part in parts:
        account, _, booked = part.split(":", 3)[:3]
        yield int(account), int(booked)


_LETTERS = {Booking.SLOT: "s", Booking.DRAW: "d", Booking.RATE: "r"}
_BOOKINGS = {letter: booking for booking, letter in _LETTERS.items()}


def _suffix(posting: Posting) -> str:
    if posting.booking is Booking.SPEND:
        return ""
    return f":{_LETTERS[posting.booking]}{posting.covered_at or posting.ticks_per_unit or ''}"


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
