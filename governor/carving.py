"""Sub-sessions: which accounts a call of theirs touches, and how."""

from collections.abc import Sequence
from dataclasses import replace

from governor.account import Account, Booking, Carve


def with_carves(accounts: Sequence[Account], carves: Sequence[Carve]) -> tuple[Account, ...]:
    """Return the accounts of a call below `carves`, the outermost of which comes first.

    An account on which a carve already holds the sub-session's whole allowance is drawn
    down instead of held again. Which carve covers it is the outermost one that is held
    there: each further one is inside it.
    """
    covered = [_covered(account, carves, below=0) for account in accounts]
    for depth, carve in enumerate(carves, start=1):
        covered += [_covered(carve.account(unit), carves, below=depth) for unit in carve.limits]
    return tuple(sorted(covered, key=lambda account: account.key))


def _covered(account: Account, carves: Sequence[Carve], *, below: int) -> Account:
    if account.booking is not Booking.SPEND:
        return account
    for depth, carve in enumerate(carves, start=1):
        if depth > below and account.key in carve.held_on:
            return replace(account, booking=Booking.DRAW, covered_at=depth)
    return account
