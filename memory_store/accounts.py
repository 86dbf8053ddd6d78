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

    Of a rate, `limit` comes back in every `every_ms`, `burst` may come at once, and `used` is
    what of the burst has not come back yet; None elsewhere.
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
    every_ms: int | None = None
    burst: int | None = None

    @property
    def remaining(self) -> int:
        """Return what is neither used nor held; negative after an overrun."""
        most = self.limit if self.burst is None else self.burst
        return most - self.used - self.reserved
