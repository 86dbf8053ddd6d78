"""Balances: what is settled and held on each account."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, bindparam, literal_column, select, update
from sqlalchemy.dialects.sqlite import insert

from governor.amounts import Unit
from governor.budget import Balance, BalanceKey, Budget, keys_for
from governor.events import Charge
from governor.ids import BudgetId
from governor.reservation import ReservationLine
from governor.scope import ScopeChain, ScopeKind
from governor.window import Window
from memory_store.statement import Statement, Value
from memory_store.tables import balances


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceView:
    """How one unit of one budget stands for one subject in the present window."""

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

    @property
    def remaining(self) -> int:
        """Return what is neither used nor held; negative after an overrun."""
        return self.limit - self.used - self.reserved


_KEY = ("budget_id", "subject", "unit", "window_start_ms")


def _is_key() -> list[ColumnElement[bool]]:
    # Parameters may not share their names with the columns that an UPDATE sets.
    return [balances.c[name] == bindparam(f"key_{name}") for name in _KEY]


_READ = Statement(select(balances.c.settled, balances.c.reserved).where(*_is_key()))

_new = insert(balances)
_HOLD = Statement(
    _new.values(
        {
            **{name: bindparam(f"key_{name}") for name in _KEY},
            "settled": literal_column("0"),
            "reserved": bindparam("held"),
            "overrun": literal_column("0"),
        }
    ).on_conflict_do_update(
        index_elements=_KEY, set_={"reserved": balances.c.reserved + _new.excluded.reserved}
    )
)

_END = Statement(
    update(balances)
    .where(*_is_key())
    .values(
        settled=balances.c.settled + bindparam("charged"),
        reserved=balances.c.reserved - bindparam("held"),
        overrun=balances.c.overrun + bindparam("overrun"),
    )
)


def balances_for(
    driver: sqlite3.Connection,
    governing: tuple[Budget, ...],
    chain: ScopeChain,
    now_ms: int,
) -> tuple[Balance, ...]:
    """Return every account of `chain`; one that was never used stands at zero."""
    by_id = {budget.budget_id: budget for budget in governing}
    found = []
    for key in keys_for(governing, chain, now_ms):
        budget = by_id[key.budget_id]
        settled, reserved = _READ.row(driver, _values(key)) or (0, 0)
        found.append(
            Balance(
                key=key,
                scope=budget.scope,
                limit=budget.limits.of(key.unit),
                settled=settled,
                reserved=reserved,
                resets_at_ms=budget.window.resets_at_ms(now_ms),
            )
        )
    return tuple(found)


def hold(driver: sqlite3.Connection, lines: Iterable[ReservationLine]) -> None:
    """Hold the amount of each line on its account."""
    _HOLD.run_many(driver, ({**_values(line.key), "held": line.amount} for line in lines))


def end(driver: sqlite3.Connection, charges: Iterable[Charge]) -> None:
    """Free what was held on each account and book what was charged."""
    _END.run_many(
        driver,
        (
            {
                **_values(charge.key),
                "held": charge.held,
                "charged": charge.charged,
                "overrun": charge.overrun,
            }
            for charge in charges
        ),
    )


def _values(key: BalanceKey) -> dict[str, Value]:
    return {
        "key_budget_id": key.budget_id,
        "key_subject": key.subject,
        "key_unit": key.unit.value,
        "key_window_start_ms": key.window_start_ms,
    }
