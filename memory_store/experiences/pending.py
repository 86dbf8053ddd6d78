"""Withdrawals that are under way: what is to go next is noted in the step that comes before.

So a crash, or a caller who goes away, leaves nothing undone that nobody knows of: the next purge
goes on with the order as it was given.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from governor.ids import PrincipalId, TenantId
from memory_store.experiences.marking import Order
from memory_store.experiences.tables import experience_withdrawals
from memory_store.statement import Driver, Statement, Value

_table = experience_withdrawals
_rows = _table.c
_DONE = Statement(
    delete(_table).where(
        _rows.number == bindparam("number"),
        _rows.goes == bindparam("goes"),
        _rows.only_of == bindparam("only_of"),
    )
)
_NEXT = Statement(insert(_table).values({c.name: bindparam(c.name) for c in _table.columns}))


class Goes(StrEnum):
    """How something is withdrawn."""

    REVOKED = "revoked"
    ERASED = "erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is withdrawn in one step, by which order; with `only_of` of whom."""

    goes: Goes
    order: Order
    numbers: tuple[int, ...]
    only_of: PrincipalId | None = None

    def then(self, numbers: Iterable[int], *, passed: Collection[int] = ()) -> "Step":
        """Return the step that comes next, with those of `numbers` that are not `passed`."""
        left = tuple(one for one in numbers if one not in passed)
        return Step(goes=self.goes, order=self.order, numbers=left, only_of=self.only_of)

    def note(self, driver: Driver) -> None:
        """Note that the step is to be made."""
        # Noted twice, it is made once.
        self.done(driver)
        order = self.order
        said: dict[str, Value] = {
            "tenant": order.tenant,
            "by": order.by,
            "why": order.why,
            "at_ms": order.now_ms,
        }
        _NEXT.run_each(driver, [{**key, **said} for key in self._keys()])

    def done(self, driver: Driver) -> None:
        """Note that the step was made."""
        _DONE.run_each(driver, self._keys())

    def _keys(self) -> list[dict[str, Value]]:
        only_of = "" if self.only_of is None else self.only_of
        return [
            {"number": one, "goes": self.goes.value, "only_of": only_of}
            for one in dict.fromkeys(self.numbers)
        ]


def steps_left(connection: Connection, *, most: int) -> list[Step]:
    """Return steps that are noted and not made, with at most that many experiences."""
    order_of = (_rows.tenant, _rows.by, _rows.why, _rows.at_ms, _rows.goes, _rows.only_of)
    query = select(*order_of, _rows.number).order_by(*order_of, _rows.number).limit(most)
    steps: dict[tuple[Any, ...], list[int]] = {}
    for *key, number in connection.execute(query):
        steps.setdefault(tuple(key), []).append(number)
    return [
        Step(
            goes=Goes(goes),
            order=Order(tenant=TenantId(tenant), by=by, why=why, now_ms=at_ms),
            numbers=tuple(numbers),
            only_of=PrincipalId(only_of) if only_of else None,
        )
        for (tenant, by, why, at_ms, goes, only_of), numbers in steps.items()
    ]
