"""The fold of the journal: how each account stands by what was booked on it."""

from array import array
from collections.abc import Iterable

from governor.account import Booking
from memory_store import line_text

Amounts = list[int]  # settled, reserved, overrun
_FIGURES = 3
_ACCOUNTS_IN_BLOCK = 256


class Fold:
    """Three numbers for each account, side by side in blocks of neighbours.

    There is an account for each session under a budget, and every one that ever was counts: as
    objects they would take ten times as much.
    """

    def __init__(self) -> None:
        """Start with every account at nothing."""
        self._blocks: dict[int, array[int]] = {}

    def of(self, account: int) -> Amounts:
        """Return how an account stands."""
        number, at = _place_of(account)
        block = self._blocks.get(number)
        return [0, 0, 0] if block is None else list(block[at : at + _FIGURES])

    def add(self, account: int, *, settled: int = 0, reserved: int = 0, overrun: int = 0) -> None:
        """Book amounts, which may be below zero.

        Raises:
            OverflowError: the account would stand at more than any book holds.
        """
        number, at = _place_of(account)
        block = self._block(number)
        block[at] += settled
        block[at + 1] += reserved
        block[at + 2] += overrun

    def put(self, account: int, amounts: Iterable[int]) -> None:
        """Have an account stand at amounts, whatever was booked before.

        Raises:
            OverflowError: they are more than any book holds.
        """
        number, at = _place_of(account)
        self._block(number)[at : at + _FIGURES] = array("q", amounts)

    def enter(self, entry: str) -> list[int]:
        """Add one entry of the journal, and return the accounts that it names."""
        kind, _, *parts = entry.split()
        match kind:
            case "opening":
                for part in parts:
                    account, *amounts = map(int, part.split(":"))
                    self.put(account, amounts)
            case "held":
                for line in line_text.read(" ".join(parts)):
                    if line.booking in (Booking.SPEND, Booking.SLOT):
                        self.add(line.account, reserved=line.amount)
            case _:
                for charge in line_text.read_charges(parts):
                    if charge.booking is not Booking.RATE:
                        self.add(
                            charge.account,
                            settled=charge.charged,
                            reserved=-charge.held,
                            overrun=max(0, charge.charged - charge.held),
                        )
        return [int(part.partition(":")[0]) for part in parts]

    def _block(self, number: int) -> "array[int]":
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = array("q", bytes(8 * _FIGURES * _ACCOUNTS_IN_BLOCK))
        return block


def _place_of(account: int) -> tuple[int, int]:
    """Return the block of an account, and where its figures begin there."""
    number, place = divmod(account, _ACCOUNTS_IN_BLOCK)
    return number, place * _FIGURES
