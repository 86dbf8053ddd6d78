from dataclasses import replace

import pytest
from contracts.builders import AGENT, COST, SESSION, TENANT, budget, chain, record, request, used

from governor.amounts import Amounts, Unit
from governor.call import CallStatus, Enforcement, Isolated
from governor.denial import DenialReason
from governor.ids import ArchiveId, CallId, TurnId
from governor.target import CallKind, CallTarget
from governor.usage import OF_PROBES, Usage
from memory_store.audit import Actor
from memory_store.errors import InvalidCursorError, NotFoundError
from memory_store.store import Store

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")


async def _settled(store: Store, cost: int, *, session: str = SESSION) -> CallId:
    asked = request({COST: 100, Unit.TOOL_CALLS: 1}, of=chain(session=session))
    await store.ledger.admit(asked)
    usage = used({COST: cost, Unit.TOOL_CALLS: 1})
    await store.ledger.settle(asked.reservation_id, usage, record(asked, usage=usage))
    return asked.call_id


async def test_every_field_of_a_record_comes_back(store: Store) -> None:
    asked = request({COST: 100}, turn="t1")
    await store.ledger.admit(asked)
    usage = Usage(
        measured=Amounts({COST: 7}),
        unmeasured={Unit.CPU_MS: "no cgroup"},
        memory_peak_bytes=4_096,
    )
    full = replace(
        record(asked, status=CallStatus.LIMIT_HIT, usage=usage),
        kind=CallKind.MODEL,
        turn=TurnId("t1"),
        denial=DenialReason.OVERLOADED,
        detail="memory.max",
        isolated=Isolated(
            enforcement=Enforcement.OBSERVED, contained=False, by="rlimit", why="no root"
        ),
        result_bytes=123,
        archive_id=ArchiveId("arc_1"),
    )

    await store.ledger.settle(asked.reservation_id, usage, full)

    view = await store.calls.get(asked.call_id)
    assert view.record == full
    assert view.charged.of(COST) == 7
    assert view.charged.of(Unit.TURNS) == 1


async def test_a_denied_call_is_kept_and_charged_nothing(store: Store) -> None:
    asked = request({COST: 100})
    denied = replace(record(asked, status=CallStatus.DENIED), denial=DenialReason.BUDGET_EXHAUSTED)

    await store.calls.record(denied)

    view = await store.calls.get(asked.call_id)
    assert view.record == denied
    assert view.record.usage is None
    assert all(amount == 0 for _, amount in view.charged)


async def test_the_first_record_of_a_call_stands(store: Store) -> None:
    call_id = await _settled(store, 40)
    view = await store.calls.get(call_id)

    await store.calls.record(replace(view.record, status=CallStatus.DENIED))

    assert await store.calls.get(call_id) == view


async def test_an_expired_call_gets_a_record(store: Store) -> None:
    left = request({COST: 30, Unit.TOOL_CALLS: 1})
    stayed = replace(
        request({COST: 30, Unit.INPUT_TOKENS: 9}),
        target=CallTarget(kind=CallKind.MODEL, name="small", upstream="lab", tier="low"),
    )
    for asked in (left, stayed):
        await store.ledger.admit(asked)
    await store.ledger.forward(left.reservation_id)

    await store.ledger.expire_due(now_ms=99_000)

    views = [await store.calls.get(asked.call_id) for asked in (left, stayed)]
    assert [view.record.status for view in views] == [CallStatus.EXPIRED] * 2
    assert [view.record.ended_at_ms for view in views] == [99_000] * 2
    assert [view.record.kind for view in views] == [CallKind.TOOL, CallKind.MODEL]
    assert [view.record.backend for view in views] == ["files", "lab"]
    assert [view.charged.of(COST) for view in views] == [30, 0]
    assert [view.record.name for view in views] == [left.target.name, "small"]
    assert ["was forwarded" in view.record.detail for view in views] == [True, False]


async def test_a_bill_adds_up_what_the_session_was_charged(store: Store) -> None:
    await _settled(store, 40)
    await _settled(store, 60)
    await _settled(store, 999, session="ses_two")
    blind = request({COST: 100, Unit.TOOL_CALLS: 1}, turn="t1")
    await store.ledger.admit(blind)
    usage = Usage(
        measured=Amounts({Unit.TOOL_CALLS: 1}),
        unmeasured={COST: "the provider reported no usage"},
        memory_peak_bytes=77,
    )
    await store.ledger.settle(blind.reservation_id, usage, record(blind, usage=usage))
    gone = request({COST: 100})
    await store.ledger.admit(gone)
    await store.ledger.release(gone.reservation_id, record(gone, status=CallStatus.RELEASED))

    bill = await store.calls.bill(SESSION)

    assert bill.charged.of(COST) == 40 + 60 + 100
    assert bill.charged.of(Unit.TOOL_CALLS) == 3
    assert bill.charged.of(Unit.TURNS) == 1
    assert bill.calls == {CallStatus.OK: 3, CallStatus.RELEASED: 1}
    assert bill.calls_total == 4
    assert bill.unmeasured == (COST,)
    assert bill.memory_peak_bytes == 77
    assert (bill.first_started_at_ms, bill.last_ended_at_ms) == (1_000, 2_000)


async def test_what_probes_counted_is_in_the_balance_the_record_and_the_bill(store: Store) -> None:
    await store.budgets.create(budget({Unit.PROBE_1: 900}), by=ADMIN, now_ms=1)
    counted = {unit: number for number, unit in enumerate(OF_PROBES, start=800)}
    asked = request(dict.fromkeys(OF_PROBES, 0))
    await store.ledger.admit(asked)

    usage = used(counted)
    await store.ledger.settle(asked.reservation_id, usage, record(asked, usage=usage))

    (line,) = await store.ledger.balances(tenant=TENANT, now_ms=1)
    view = await store.calls.get(asked.call_id)
    bill = await store.calls.bill(SESSION)
    assert line.used == 800
    for found in (view.charged, bill.charged):
        assert {unit: found.of(unit) for unit in OF_PROBES} == counted


async def test_a_turn_is_charged_as_admitted_whatever_the_usage_says(store: Store) -> None:
    await store.budgets.create(budget({Unit.TURNS: 9}), by=ADMIN, now_ms=1)
    asked = request({COST: 1}, turn="t1")
    await store.ledger.admit(asked)

    await store.ledger.settle(asked.reservation_id, used({Unit.TURNS: 5}), record(asked))

    (view,) = await store.ledger.balances(tenant=TENANT, now_ms=1)
    assert view.used == (await store.calls.bill(SESSION)).charged.of(Unit.TURNS) == 1


async def test_the_bill_of_a_session_without_calls_is_empty(store: Store) -> None:
    bill = await store.calls.bill(SESSION)

    assert bill.calls_total == 0
    assert all(amount == 0 for _, amount in bill.charged)
    assert bill.memory_peak_bytes is None


async def test_a_bill_is_what_the_budget_was_charged(store: Store) -> None:
    await store.budgets.create(budget({COST: 10_000}), by=ADMIN, now_ms=1)
    for cost in (3, 50, 170):
        await _settled(store, cost)

    (view,) = await store.ledger.balances(tenant=TENANT, now_ms=1)

    assert view.used == (await store.calls.bill(SESSION)).charged.of(COST) == 223


async def test_calls_are_filtered_and_paged_from_the_latest(store: Store) -> None:
    ended = [await _settled(store, 1) for _ in range(5)]
    other = await _settled(store, 1, session="ses_two")

    first = await store.calls.page(tenant=TENANT, agent=AGENT, session=SESSION, limit=3)
    second = await store.calls.page(
        tenant=TENANT, agent=AGENT, session=SESSION, limit=3, cursor=first.next
    )
    of_two = await store.calls.page(session=chain(session="ses_two").session)
    denied = await store.calls.page(status=CallStatus.DENIED)

    shown = [view.record.call_id for view in (*first.items, *second.items)]
    assert sorted(shown) == sorted(ended)
    assert second.next is None
    assert [view.record.call_id for view in of_two.items] == [other]
    assert denied.items == ()
    assert (await store.calls.page(name="files__write")).items == ()


@pytest.mark.parametrize("cursor", ["", "x", "W10", "WyJhIl0", "WzEsIDJd", "é", "=" * 9])
async def test_a_cursor_that_is_not_ours_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidCursorError):
        await store.calls.page(cursor=cursor)


async def test_a_call_that_has_not_ended_has_no_record(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await store.calls.get(CallId("call_none"))


async def test_the_latest_good_calls_come_in_the_order_of_their_ends(store: Store) -> None:
    wanted = [
        ("tools_search", CallStatus.OK, 1),
        ("files__read", CallStatus.TOOL_ERROR, 2),
        ("files__read", CallStatus.OK, 3),
        ("files__write", CallStatus.OK, 4),
    ]
    for name, status, ended_at_ms in wanted:
        asked = request({COST: 100})
        await store.ledger.admit(asked)
        usage = used({COST: 1})
        made = replace(
            record(asked, status=status, usage=usage),
            name=name,
            ended_at_ms=ended_at_ms,
            arguments='{"query": "a"}',
            detail="found: files__read",
        )
        await store.ledger.settle(asked.reservation_id, usage, made)

    everything = await store.calls.latest_good(limit=10, in_full="tools_search")
    last = await store.calls.latest_good(limit=1, in_full="tools_search")

    assert [(call.name, call.ended_at_ms) for call in everything] == [
        ("tools_search", 1),
        ("files__read", 3),
        ("files__write", 4),
    ]
    assert {(call.tenant, call.session) for call in everything} == {(TENANT, SESSION)}
    search, read, _ = everything
    assert (search.arguments, search.detail) == ('{"query": "a"}', "found: files__read")
    assert (read.arguments, read.detail) == (None, None)
    assert [call.name for call in last] == ["files__write"]
