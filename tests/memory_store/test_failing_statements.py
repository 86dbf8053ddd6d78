"""Whatever statement fails, the whole piece is undone: fail the first, the second, and so on."""

import itertools
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from contracts.builders import COST, budget, record, request, used
from sqlalchemy import Connection, Table, select

from governor.scope import ScopeKind
from memory_store.audit import Actor
from memory_store.errors import StoreUnavailableError
from memory_store.statement import Statement
from memory_store.store import Store
from memory_store.tables import metadata

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")


@contextmanager
def _failing_at(position: int) -> Iterator[None]:
    """Have the statement at `position` of the hot path fail as on a disk error."""
    counter = itertools.count()

    def failing(method: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object) -> object:
            if next(counter) == position:
                message = "disk I/O error"
                raise sqlite3.OperationalError(message)
            return method(*arguments)

        return run

    with pytest.MonkeyPatch.context() as patch:
        for name in ("rows", "row", "run", "run_many"):
            patch.setattr(Statement, name, failing(getattr(Statement, name)))
        yield


async def _everything(store: Store) -> dict[str, list[tuple[object, ...]]]:
    def read(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
        def rows(table: Table) -> list[tuple[object, ...]]:
            return [tuple(row) for row in connection.execute(select(table))]

        return {table.name: rows(table) for table in metadata.sorted_tables}

    return await store.reader.run(read)


async def _fails_whole_until_it_succeeds(store: Store, act: Callable[[], Awaitable[object]]) -> int:
    """Return at how many positions a failure was survived without a trace."""
    before = await _everything(store)
    for position in itertools.count():
        try:
            with _failing_at(position):
                await act()
        except StoreUnavailableError:
            assert await _everything(store) == before
        else:
            assert await _everything(store) != before
            return position
    raise AssertionError


async def test_a_statement_that_fails_undoes_the_whole_piece(store: Store) -> None:
    for scope in (ScopeKind.TENANT, ScopeKind.AGENT, ScopeKind.SESSION):
        await store.budgets.create(
            budget({COST: 100}, budget_id=f"b-{scope}", scope=scope), by=ADMIN, now_ms=1
        )
    settled = request({COST: 30}, turn="t1", key=("k", "h"))
    released, expired = request({COST: 30}), request({COST: 30})
    ledger = store.ledger

    steps: list[Callable[[], Awaitable[object]]] = [
        lambda: ledger.admit(settled),
        lambda: ledger.forward(settled.reservation_id, now_ms=1_100),
        lambda: ledger.settle(settled.reservation_id, used({COST: 7}), record(settled)),
        lambda: ledger.admit(released),
        lambda: ledger.release(released.reservation_id, record(released)),
        lambda: ledger.admit(expired),
        lambda: ledger.expire_due(now_ms=99_000),
    ]
    survived = [await _fails_whole_until_it_succeeds(store, step) for step in steps]

    assert min(survived) >= 3
    assert survived[0] >= 10
