"""Budgets and the balances that show how far they are used."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from governor.amounts import Amounts, Unit
from governor.errors import InvalidBudgetError
from governor.ids import BudgetId, TenantId
from governor.scope import ScopeChain, ScopeKind
from governor.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A consumable allowance in one scope over one window.

    `subject` names the one agent or session that shares the allowance; None gives every
    scope of that kind in the tenant an allowance of its own. A tenant's quota is a budget
    too, the widest of its chain.

    Raises:
        InvalidBudgetError: no limit is given, or a tenant budget names another subject.
    """

    budget_id: BudgetId
    tenant: TenantId
    scope: ScopeKind
    subject: str | None
    limits: Amounts
    window: Window
    is_quota: bool = False

    def __post_init__(self) -> None:
        """Refuse a budget that limits nothing or stands nowhere."""
        if not any(True for _ in self.limits):
            message = "limits: name at least one unit"
            raise InvalidBudgetError(message)
        if self.scope is ScopeKind.TENANT and self.subject not in (None, self.tenant):
            message = f"subject: a tenant budget cannot be for {self.subject!r}"
            raise InvalidBudgetError(message)

    def governs(self, chain: ScopeChain) -> bool:
        """Tell whether calls of `chain` are charged to this budget."""
        if self.tenant != chain.tenant:
            return False
        return self.subject is None or self.subject == chain.subject_of(self.scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceKey:
    """Which account an amount is booked to."""

    budget_id: BudgetId
    subject: str
    unit: Unit
    window_start_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """How one unit of one budget stands for one subject in one window."""

    key: BalanceKey
    scope: ScopeKind
    limit: int
    settled: int
    reserved: int
    resets_at_ms: int | None

    @property
    def remaining(self) -> int:
        """Return what is neither settled nor held; negative after an overrun."""
        return self.limit - self.settled - self.reserved

    def affords(self, amount: int) -> bool:
        """Tell whether `amount` more may be held."""
        return amount <= self.remaining

    def hold(self, amount: int) -> "Balance":
        """Return the balance with `amount` more held."""
        return replace(self, reserved=self.reserved + amount)

    def end(self, *, held: int, charged: int) -> "Balance":
        """Return the balance after a hold of `held` ended with `charged`."""
        return replace(self, reserved=self.reserved - held, settled=self.settled + charged)


def keys_for(budgets: Iterable[Budget], chain: ScopeChain, now_ms: int) -> tuple[BalanceKey, ...]:
    """Return every account that a call of `chain` at `now_ms` touches, in a fixed order.

    The order (by budget, subject, unit) is the order in which a store locks the rows, so
    that two reservations can never wait for each other.
    """
    keys = [
        BalanceKey(
            budget_id=budget.budget_id,
            subject=chain.subject_of(budget.scope),
            unit=unit,
            window_start_ms=budget.window.start_ms(now_ms),
        )
        for budget in budgets
        if budget.governs(chain)
        for unit, _ in budget.limits
    ]
    return tuple(sorted(keys, key=lambda key: (key.budget_id, key.subject, key.unit)))
