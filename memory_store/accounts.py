"""How an account stands, as people and programs see it."""

from dataclasses import dataclass

from governor.amounts import Unit
from governor.budget import BudgetKind, Mode
from governor.ids import BudgetId
from governor.scope import ScopeKind
from governor.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceView:
    """How one unit of one budget stands for one subject in the present window.

    Of a rate, `limit` is what may come at once and `used` what of it has not come back yet.
    """

    budget_id: BudgetId
    scope: ScopeKind
    subject: str
    unit: Unit
    limit: int
    used: int
    reserved: int
    overrun: int
    window: Window
    resets_at_ms: int | None
    is_quota: bool
    kind: BudgetKind = BudgetKind.ALLOWANCE
    mode: Mode = Mode.ENFORCE

    @property
    def remaining(self) -> int:
        """Return what is neither used nor held; negative after an overrun."""
        return self.limit - self.used - self.reserved
