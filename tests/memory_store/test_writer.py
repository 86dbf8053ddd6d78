import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from contracts.builders import COST, IN_FILES, TENANT, budget, record, request, used
from sqlalchemy import Connection, event, insert, text

from governor.denial import Denied
from governor.events import Reserved
from governor.ids import CallId, TenantId
from memory_store import writer as writer_module
from memory_store.audit import Actor
from memory_store.errors import StoreOverloadedError, StoreUnavailableError, UnstorableError
from memory_store.store import Store
from memory_store.tables import balances, tenants
from memory_store.writer import BUSY_PIECES, Writer

ADMIN = Actor(name="root")
pytestmark = pytest.mark.anyio


class Gate:
    """Keeps the writer's thread busy, so that what is asked meanwhile becomes one batch."""

    def __init__(self) -> None:
        self.is_running = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, _connection: Connection) -> None:
        self.is_running.set()
        assert self.may_end.wait(60)


async def _batch(writer: Writer, *works: Callable[[Connection], object]) -> list[object]:
    """Run `works` in one transaction and return what each caller got."""
    gate = Gate()
    blocker = writer.submit(gate)
    assert await anyio.to_thread.run_sync(gate.is_running.wait, 60)
    futures = [writer.submit(work) for work in works]
    gate.may_end.set()
    await blocker
    outcomes: list[object] = []
    for future in futures:
        try:
            outcomes.append(await future)
        except Exception as error:  # noqa: BLE001 - the outcome is what the test looks at
            outcomes.append(error)
    return outcomes


def _adding(name: str) -> Callable[[Connection], str]:
    row = {
        "tenant_id": name,
        "name": name,
        "disabled": False,
        "created_at_ms": 1,
        "updated_at_ms": 1,
        "version": 1,
    }

    def work(connection: Connection) -> str:
        connection.execute(insert(tenants), row)
        return name

    return work


async def _tenant_ids(store: Store) -> list[str]:
    return [tenant.tenant_id for tenant in (await store.tenants.page()).items]


async def test_a_piece_that_fails_fails_alone(store: Store) -> None:
    def failing(connection: Connection) -> None:
        _adding("half")(connection)
        message = "the caller's own"
        raise ValueError(message)

    outcomes = await _batch(store.writer, _adding("one"), failing, _adding("two"))

    assert [outcomes[0], outcomes[2]] == ["one", "two"]
    assert isinstance(outcomes[1], ValueError)
    assert await _tenant_ids(store) == [TENANT, "one", "two"]


async def test_where_many_came_together_the_next_one_waits_for_those_on_their_way(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_waiting, may_go = threading.Event(), threading.Event()

    def wait(_seconds: float) -> None:
        is_waiting.set()
        assert may_go.wait(60)

    monkeypatch.setattr(writer_module, "time", SimpleNamespace(sleep=wait))
    await _batch(store.writer, *(_adding(str(at)) for at in range(BUSY_PIECES)))
    if store.writer._is_shared:
        # A server's way there and back is wait enough.
        assert await store.writer.submit(_adding("first")) == "first"
        assert not is_waiting.is_set()
        return
    commits: list[Connection] = []
    event.listen(store.writer._engine, "commit", commits.append)

    first = store.writer.submit(_adding("first"))
    assert await anyio.to_thread.run_sync(is_waiting.wait, 60)
    second = store.writer.submit(_adding("second"))
    may_go.set()

    assert [await first, await second] == ["first", "second"]
    assert len(commits) == 1


async def test_one_that_comes_alone_waits_for_nobody(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(writer_module, "time", SimpleNamespace(sleep=waits.append))
    await _batch(store.writer, *(_adding(str(at)) for at in range(BUSY_PIECES - 1)))

    await store.writer.submit(_adding("alone"))

    assert waits == []


async def test_a_piece_that_the_database_refuses_fails_alone(store: Store) -> None:
    def negative(connection: Connection) -> None:
        row = {"budget_id": "b", "subject": "s", "unit": "u", "window_start_ms": 0}
        connection.execute(insert(balances), {**row, "settled": 0, "reserved": -1, "overrun": 0})

    outcomes = await _batch(store.writer, _adding("one"), negative)

    assert outcomes[0] == "one"
    assert isinstance(outcomes[1], StoreUnavailableError)
    assert await _tenant_ids(store) == [TENANT, "one"]


async def test_when_commit_fails_everybody_is_told_and_nothing_is_stored(store: Store) -> None:
    def failing(_connection: Connection) -> None:
        message = "the disk is gone"
        raise OSError(message)

    engine = store.writer._engine
    gate = Gate()
    blocker = store.writer.submit(gate)
    assert await anyio.to_thread.run_sync(gate.is_running.wait, 60)
    waiting: list[Awaitable[object]] = [
        blocker,
        *(store.writer.submit(_adding(name)) for name in ("one", "two")),
    ]
    event.listen(engine, "commit", failing)
    gate.may_end.set()

    for future in waiting:
        with pytest.raises(StoreUnavailableError):
            await future
    event.remove(engine, "commit", failing)

    assert await _tenant_ids(store) == [TENANT]
    assert await store.writer.run(_adding("later")) == "later"


@IN_FILES
async def test_when_the_transaction_is_lost_half_way_nobody_is_told_stored(store: Store) -> None:
    def losing(connection: Connection) -> None:
        # What SQLite does by itself when, say, the disk is full.
        connection.exec_driver_sql("ROLLBACK")
        connection.execute(text("SELECT * FROM no_such_table"))

    outcomes = await _batch(store.writer, _adding("one"), losing, _adding("two"))

    assert all(isinstance(outcome, StoreUnavailableError) for outcome in outcomes)
    assert await _tenant_ids(store) == [TENANT]


async def test_what_was_remembered_of_a_lost_transaction_is_forgotten(store: Store) -> None:
    await store.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=1)

    def failing(_connection: Connection) -> None:
        message = "the disk is gone"
        raise OSError(message)

    engine = store.writer._engine
    gate = Gate()
    blocker = store.writer.submit(gate)
    assert await anyio.to_thread.run_sync(gate.is_running.wait, 60)
    async with anyio.create_task_group() as group:

        async def raise_budget() -> None:
            with pytest.raises(StoreUnavailableError):
                await store.budgets.put(
                    budget({COST: 1_000}), expected_version=None, by=ADMIN, now_ms=2
                )

        async def admit() -> None:
            # In the same transaction, so it sees the raised budget and remembers it.
            with pytest.raises(StoreUnavailableError):
                await store.ledger.admit(request({COST: 500}))

        group.start_soon(raise_budget)
        group.start_soon(admit)
        await anyio.wait_all_tasks_blocked()
        event.listen(engine, "commit", failing)
        gate.may_end.set()
        with pytest.raises(StoreUnavailableError):
            await blocker
    event.remove(engine, "commit", failing)

    assert isinstance(await store.ledger.admit(request({COST: 500})), Denied)


async def test_nobody_is_told_before_commit(store: Store) -> None:
    order: list[str] = []
    event.listen(store.writer._engine, "commit", lambda _connection: order.append("commit"))

    await store.writer.run(_adding("one"), after_commit=lambda: order.append("after"))
    order.append("told")

    assert order == ["commit", "after", "told"]


@IN_FILES
async def test_callers_that_wait_together_share_one_commit(store: Store) -> None:
    commits: list[Connection] = []
    event.listen(store.writer._engine, "commit", commits.append)

    await _batch(store.writer, *(_adding(f"t{number}") for number in range(200)))

    assert len(commits) == 2  # the gate's and theirs


async def test_a_full_queue_refuses_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_store.writer.NOT_OWED_MAX", 2)
    gate = Gate()
    blocker = store.writer.submit(gate)
    assert await anyio.to_thread.run_sync(gate.is_running.wait, 60)
    waiting: list[Awaitable[object]] = [
        blocker,
        *(store.writer.submit(_adding(name)) for name in ("one", "two")),
    ]

    with pytest.raises(StoreOverloadedError):
        store.writer.submit(_adding("three"))

    gate.may_end.set()
    for future in waiting:
        await future
    assert await _tenant_ids(store) == [TENANT, "one", "two"]


async def test_the_last_part_of_the_queue_is_for_what_must_not_be_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "NOT_OWED_MAX", 2)
    gate = Gate()
    waiting = [store.writer.submit(gate)]
    assert await anyio.to_thread.run_sync(gate.is_running.wait, 60)
    waiting += [store.writer.submit(_adding(name)) for name in ("one", "two")]

    for may_be_dropped in (False, True):
        with pytest.raises(StoreOverloadedError):
            store.writer.submit(_adding("three"), may_be_dropped=may_be_dropped)
    waiting.append(store.writer.submit(_adding("settled"), is_owed=True))

    gate.may_end.set()
    for future in waiting:
        await future
    assert await _tenant_ids(store) == [TENANT, "one", "settled", "two"]


async def test_what_ends_a_call_is_taken_where_an_admission_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [request({COST: 1}, expires_at_ms=5_000) for _ in range(4)]
    for each in asked:
        await store.ledger.admit(each)
    forwarded, settled, released, _ = (each.reservation_id for each in asked)
    monkeypatch.setattr(writer_module, "NOT_OWED_MAX", 0)

    with pytest.raises(StoreOverloadedError):
        await store.ledger.admit(request({COST: 1}))
    await store.ledger.forward(forwarded)
    await store.ledger.settle(settled, used({COST: 9}), record(asked[1]))
    await store.ledger.release(released, record(asked[2]))
    await store.calls.record(record(request({COST: 1})))

    assert len(await store.ledger.expire_due(now_ms=5_000)) == 2


async def test_a_value_that_no_database_holds_is_named_and_harms_no_neighbour(
    store: Store,
) -> None:
    half_a_surrogate = "\ud800"

    with pytest.raises(UnstorableError, match="name") as caught:
        await store.tenants.create(TenantId("t1"), name=half_a_surrogate, by=ADMIN, now_ms=1)
    assert caught.value.names == ("name",)
    await store.tenants.create(TenantId("t2"), name="fine", by=ADMIN, now_ms=1)

    assert await _tenant_ids(store) == [TENANT, "t2"]


async def test_more_than_one_batch_waits_its_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "BATCH_MAX", 3)

    outcomes = await _batch(store.writer, *(_adding(f"t{number}") for number in range(10)))

    assert outcomes == [f"t{number}" for number in range(10)]


async def _cancelled_while_waiting(
    store: Store, act: Callable[[], Coroutine[Any, Any, object]]
) -> None:
    """Have `act` wait behind a busy writer, and give up."""
    gate = Gate()
    blocker = store.writer.submit(gate)
    assert await anyio.to_thread.run_sync(gate.is_running.wait, 60)
    async with anyio.create_task_group() as group:
        group.start_soon(act)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    gate.may_end.set()
    await blocker
    await store.check()


async def test_an_admission_whose_caller_has_gone_holds_nothing(store: Store) -> None:
    await store.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=1)

    await _cancelled_while_waiting(store, lambda: store.ledger.admit(request({COST: 10})))

    assert isinstance(await store.ledger.admit(request({COST: 10})), Reserved)


async def test_a_settlement_whose_caller_has_gone_is_stored(store: Store) -> None:
    await store.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=1)
    asked = request({COST: 10})
    await store.ledger.admit(asked)

    await _cancelled_while_waiting(
        store,
        lambda: store.ledger.settle(asked.reservation_id, used({COST: 4}), record(asked)),
    )

    (view,) = await store.ledger.balances(tenant=TENANT, now_ms=1)
    assert (view.used, view.reserved) == (4, 0)


async def test_a_value_on_the_hot_path_that_no_database_holds_is_named(store: Store) -> None:
    asked = request({COST: 1})
    asked = replace(asked, target=replace(asked.target, name="half \ud800"), expires_at_ms=2**63)

    with pytest.raises(UnstorableError) as caught:
        await store.ledger.admit(asked)

    assert set(caught.value.names) == {"name", "expires_at_ms"}


async def test_a_read_for_a_value_that_no_database_holds_is_told(store: Store) -> None:
    with pytest.raises(UnstorableError):
        await store.calls.get(CallId("\ud800"))


async def test_a_settlement_is_not_lost_for_the_words_of_its_record(store: Store) -> None:
    await store.budgets.create(budget({COST: 100}), by=ADMIN, now_ms=1)
    asked = request({COST: 10})
    await store.ledger.admit(asked)
    said = replace(record(asked), arguments="half \ud800", detail="\udfff")

    await store.ledger.settle(asked.reservation_id, used({COST: 40}), said)

    (view,) = await store.ledger.balances(tenant=TENANT, now_ms=1)
    kept = (await store.calls.get(asked.call_id)).record
    assert view.used == 40
    assert (kept.arguments, kept.detail) == ("half \\ud800", "\\udfff")
