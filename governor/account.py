"""Accounts, where amounts are booked, and the balances that show how they stand."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from governor.amounts import Unit
from governor.ids import BudgetId, SessionId
from governor.rate import Rate
from governor.scope import ScopeKind


class BalanceKey(NamedTuple):
    """Which account an amount is booked to; ordered, because stores lock in this order."""

    budget_id: BudgetId
    subject: str
    unit: Unit
    window_start_ms: int


class Booking(StrEnum):
    """How an amount moves on its account.

    SPEND is held, then charged. A SLOT is held while a call runs and never charged. A RATE
    is charged at once and corrected at the end. A DRAW holds nothing by itself, because a
    sub-session's carve already holds it there; its charge comes out of that hold.
    """

    SPEND = "spend"
    SLOT = "slot"
    RATE = "rate"
    DRAW = "draw"


class Posting(NamedTuple):
    """Where an amount is booked and how: what every hold on an account has in common.

    `covered_at` is the depth in the chain of the session whose carve a DRAW comes out of.
    `ticks_per_unit` is what one unit moves the arrival time of a RATE.
    """

    key: BalanceKey
    booking: Booking = Booking.SPEND
    covered_at: int = 0
    ticks_per_unit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What is fixed about one unit of one budget for one subject in one window.

    `older` are the parts of a sliding window that still count. `warn_at` are amounts, and
    `warn_at_permille` the shares of the limit that they stand for.
    `covered_at` says, where `booking` is DRAW, which session of the chain holds the carve.
    `posting` follows from the rest; it is made once, because every hold needs it.
    """

    key: BalanceKey
    scope: ScopeKind
    limit: int
    resets_at_ms: int | None
    booking: Booking = Booking.SPEND
    rate: Rate | None = None
    older: tuple[BalanceKey, ...] = ()
    is_enforced: bool = True
    may_owe: bool = False
    warn_at: tuple[int, ...] = ()
    warn_at_permille: tuple[int, ...] = ()
    covered_at: int = 0
    posting: Posting = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the posting."""
        ticks = 0 if self.rate is None else self.rate.ticks_per_unit
        posting = Posting(self.key, self.booking, self.covered_at, ticks)
        object.__setattr__(self, "posting", posting)

    @property
    def keys(self) -> tuple[BalanceKey, ...]:
        """Return every key whose amounts count, the one that is booked to last."""
        return (*self.older, self.key)


class Balance(NamedTuple):
    """How an account stands: what is charged and what is held.

    On a rate's account `settled` is the theoretical arrival time and nothing is held. `parts`
    is what counts in each of the account's `keys`, empty where the window does not slide.
    """

    account: Account
    settled: int
    reserved: int
    parts: tuple[int, ...] = ()

    @classmethod
    def over(cls, account: Account, amounts: Iterable[tuple[int, int]]) -> "Balance":
        """Return how an account stands; `amounts` has settled and reserved of each of its keys."""
        each = tuple(amounts)
        return cls(
            account,
            sum(settled for settled, _ in each),
            sum(reserved for _, reserved in each),
            tuple(map(sum, each)) if account.older else (),
        )

    @property
    def key(self) -> BalanceKey:
        """Return the key of the account."""
        return self.account.key

    @property
    def remaining(self) -> int:
        """Return what is neither settled nor held; negative after an overrun."""
        return self.account.limit - self.settled - self.reserved

    def affords(self, amount: int, now_ms: int, *, on_credit: bool = True) -> bool:
        """Tell whether `amount` more may be held at `now_ms`.

        Where the account may owe, one call may cross its limit; not `on_credit`, none may.
        """
        account = self.account
        if account.booking is Booking.DRAW:
            return True
        if account.rate is not None:
            return amount <= account.rate.level(self.settled, now_ms)
        remaining = account.limit - self.settled - self.reserved
        return amount <= remaining or (account.may_owe and on_credit and remaining > 0)

    def fits_at_ms(self, amount: int) -> int | None:
        """Return when time alone will have made room for `amount`.

        That is when the window resets, or when enough parts of a sliding one have left: each
        leaves as long before the reset as it began before the present one. None: it never
        resets.
        """
        account, remaining = self.account, self.remaining
        at_ms = account.resets_at_ms
        if at_ms is None or not self.parts:
            return at_ms
        begins = [
            (key.window_start_ms, part) for key, part in zip(account.keys, self.parts, strict=True)
        ]
        for began_ms, part in sorted(begins):
            remaining += part
            if amount <= remaining or (account.may_owe and remaining > 0):
                return at_ms + began_ms - account.key.window_start_ms
        return at_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Carve:
    """What a sub-session may use: limits, and where its parents' accounts hold them."""

    session: SessionId
    limits: Mapping[Unit, int]
    held_on: frozenset[BalanceKey]

    def account(self, unit: Unit) -> Account:
        """Return the sub-session's own account of `unit`."""
        return Account(
            key=BalanceKey(carve_budget(self.session), self.session, unit, 0),
            scope=ScopeKind.SUB_SESSION,
            limit=self.limits[unit],
            resets_at_ms=None,
        )


def carve_budget(session: SessionId) -> BudgetId:
    """Return the id under which the allowance of a sub-session is booked."""
    return BudgetId(f"carve:{session}")
