"""Budgets, as administrators set them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from governor.account import Account, BalanceKey, Booking
from governor.amounts import Amounts, Unit
from governor.errors import InvalidBudgetError
from governor.ids import BudgetId, TenantId
from governor.rate import Rate
from governor.scope import ScopeChain, ScopeKind
from governor.target import EVERYTHING, CallTarget, TargetMatch
from governor.window import Fixed, Lifetime, Window

_PERMILLE = 1000
# What runs at one moment is counted on an account of its own, so that a budget that becomes
# a concurrency does not begin with what it charged before.
_SLOTS_START_MS = 1


class BudgetKind(StrEnum):
    """What a budget's limits mean.

    An allowance is used up over its window. A rate refills all the time. Concurrency is how
    many calls may run at one moment: its use comes back when a call ends.
    """

    ALLOWANCE = "allowance"
    RATE = "rate"
    CONCURRENCY = "concurrency"


class Mode(StrEnum):
    """Whether a budget denies, or only notes what it would have denied."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class Overdraft(StrEnum):
    """What happens when a call needs more than remains.

    With a debt allowed, the call that crosses the limit may run and nothing more until the
    budget is back above zero.
    """

    DENY = "deny"
    ALLOW_AND_DEBT = "allow_and_debt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A consumable allowance in one scope over one window, or a rate, or a concurrency.

    `subject` names the one agent or session that shares the allowance; None gives every
    scope of that kind in the tenant an allowance of its own. A tenant's quota is a budget
    too, the widest of its chain. `match` narrows it to some tools, upstreams or tiers.
    `warn_at_permille` are the shares of a limit at which a warning is given.

    Raises:
        InvalidBudgetError: no limit is given, a part is out of range, or parts contradict.
    """

    budget_id: BudgetId
    tenant: TenantId
    scope: ScopeKind
    subject: str | None
    limits: Amounts
    window: Window
    is_quota: bool = False
    kind: BudgetKind = BudgetKind.ALLOWANCE
    burst: int | None = None
    match: TargetMatch = EVERYTHING
    mode: Mode = Mode.ENFORCE
    overdraft: Overdraft = Overdraft.DENY
    warn_at_permille: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a budget that limits nothing, stands nowhere or contradicts itself."""
        if not any(True for _ in self.limits):
            message = "limits: name at least one unit"
            raise InvalidBudgetError(message)
        if self.scope is ScopeKind.TENANT and self.subject not in (None, self.tenant):
            message = f"subject: a tenant budget cannot be for {self.subject!r}"
            raise InvalidBudgetError(message)
        if self.scope is ScopeKind.SUB_SESSION:
            message = "scope: a sub-session's allowance is carved out when it is opened"
            raise InvalidBudgetError(message)
        if Unit.TURNS in self.limits and not self.match.takes_everything:
            message = (
                "limits.turns: the first call of a turn pays for all of it, whatever it calls; "
                "count turns in a budget without `match`"
            )
            raise InvalidBudgetError(message)
        _check_kind(self)
        _check_warnings(self.warn_at_permille)

    def governs(self, chain: ScopeChain) -> bool:
        """Tell whether calls of `chain` are charged to this budget."""
        return self.tenant == chain.tenant and self._subject_in(chain) is not None

    def accounts(self, chain: ScopeChain, now_ms: int) -> tuple[Account, ...]:
        """Return the accounts of a chain that the budget governs, one for each unit."""
        subject = self._subject_in(chain)
        assert subject is not None, "the budget does not govern this chain"
        is_rate = self.kind is BudgetKind.RATE
        older_ms = () if is_rate else self.window.older_ms(now_ms)
        return tuple(
            Account(
                key=BalanceKey(self.budget_id, subject, unit, self._start_ms(limit, now_ms)),
                scope=self.scope,
                limit=limit,
                resets_at_ms=None if is_rate else self.window.resets_at_ms(now_ms),
                booking=_BOOKINGS[self.kind],
                rate=self._rate(limit) if is_rate else None,
                older=tuple(BalanceKey(self.budget_id, subject, unit, ms) for ms in older_ms),
                is_enforced=self.mode is Mode.ENFORCE,
                may_owe=self.overdraft is Overdraft.ALLOW_AND_DEBT,
                warn_at=tuple(
                    -(-limit * permille // _PERMILLE) for permille in self.warn_at_permille
                ),
                warn_at_permille=self.warn_at_permille,
            )
            for unit, limit in self.limits
        )

    def starts_ms(self, unit: Unit, now_ms: int) -> tuple[int, ...]:
        """Return where the accounts of `unit` begin whose amounts count, the latest last."""
        older_ms = () if self.kind is BudgetKind.RATE else self.window.older_ms(now_ms)
        return (*older_ms, self._start_ms(self.limits.of(unit), now_ms))

    def _start_ms(self, limit: int, now_ms: int) -> int:
        match self.kind:
            case BudgetKind.ALLOWANCE:
                return self.window.start_ms(now_ms)
            case BudgetKind.RATE:
                # It never starts anew, but its one number means nothing on another scale.
                return -self._rate(limit).ticks_per_ms
            case BudgetKind.CONCURRENCY:
                return _SLOTS_START_MS

    def _subject_in(self, chain: ScopeChain) -> str | None:
        """Return who of `chain` the budget is kept for, None if nobody is."""
        if self.scope is ScopeKind.SESSION and self.subject is not None:
            return self.subject if self.subject in chain.sessions else None
        subject = chain.subject_of(self.scope)
        return subject if self.subject in (None, subject) else None

    def _rate(self, limit: int) -> Rate:
        assert isinstance(self.window, Fixed), "checked when the budget was made"
        return Rate(limit=limit, every_ms=self.window.length_ms, burst=self.burst or limit)


_BOOKINGS = {
    BudgetKind.ALLOWANCE: Booking.SPEND,
    BudgetKind.RATE: Booking.RATE,
    BudgetKind.CONCURRENCY: Booking.SLOT,
}


def accounts_for(
    budgets: Iterable[Budget], chain: ScopeChain, target: CallTarget, now_ms: int
) -> tuple[Account, ...]:
    """Return every account that a call of `chain` at `now_ms` touches, in a fixed order.

    The order is the order in which a store locks the rows, so that two reservations can
    never wait for each other.
    """
    accounts = [
        account
        for budget in budgets
        if budget.governs(chain) and budget.match.covers(target)
        for account in budget.accounts(chain, now_ms)
    ]
    return tuple(sorted(accounts, key=lambda account: account.key))


def _check_kind(budget: Budget) -> None:
    match budget.kind:
        case BudgetKind.ALLOWANCE:
            if budget.burst is not None:
                message = 'burst: only a budget of kind "rate" has one'
                raise InvalidBudgetError(message)
        case BudgetKind.RATE:
            if not isinstance(budget.window, Fixed):
                message = "window: a rate needs a fixed one, the time in which its limit refills"
                raise InvalidBudgetError(message)
            if budget.overdraft is not Overdraft.DENY or budget.warn_at_permille:
                message = "overdraft, warn_at: a rate refills all the time and has neither"
                raise InvalidBudgetError(message)
            for _, limit in budget.limits:
                budget._rate(limit)  # noqa: SLF001 - its own, checked as a whole
        case BudgetKind.CONCURRENCY:
            _check_concurrency(budget)


def _check_concurrency(budget: Budget) -> None:
    if [unit for unit, _ in budget.limits] != [Unit.TOOL_CALLS]:
        message = "limits: a concurrency counts tool_calls and nothing else"
        raise InvalidBudgetError(message)
    if not isinstance(budget.window, Lifetime) or budget.burst is not None:
        message = "window, burst: a concurrency holds at every moment and has neither"
        raise InvalidBudgetError(message)
    if budget.overdraft is not Overdraft.DENY:
        message = "overdraft: calls that run at once cannot be owed"
        raise InvalidBudgetError(message)


def _check_warnings(warn_at_permille: tuple[int, ...]) -> None:
    for permille in warn_at_permille:
        if not 0 < permille <= _PERMILLE:
            message = f"warn_at_permille: {permille} is not from 1 to {_PERMILLE}"
            raise InvalidBudgetError(message)
    if list(warn_at_permille) != sorted(set(warn_at_permille)):
        message = "warn_at_permille: name each share once, the smallest first"
        raise InvalidBudgetError(message)
