"""What is kept for those who are told: which notices each has taken, on both databases."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from contracts.builders import COST, TENANT, budget, record, request, used

from governor.amounts import Amounts
from governor.approval import ApprovalEvent
from governor.denial import DenialReason
from governor.denial_tally import DenialsSeen
from governor.ids import ApprovalId, CallId, PrincipalId
from governor.target import CallKind
from memory_store.audit import Actor
from memory_store.notices import SETTLED_MS, NoticeKind, NoticeView
from memory_store.store import Store
from tests.governor.makers import question

pytestmark = pytest.mark.anyio

ROOT = Actor(name="root")
LATE_MS = 10**12
SEEN = DenialsSeen(
    tenant=TENANT,
    agent=PrincipalId("ada"),
    reason=DenialReason.LOOP_DETECTED,
    kind=CallKind.MODEL,
    name="small-1",
    call_id=CallId("call_1"),
    count=7,
    since_ms=5,
)


async def told(store: Store, count: int, *, at_ms: int = 1) -> None:
    for _ in range(count):
        await store.notices.tell_denials([SEEN], now_ms=at_ms)


async def open_for(
    store: Store, name: str, kinds: Sequence[NoticeKind] = tuple(NoticeKind)
) -> list[int]:
    return [view.seq for view in await store.notices.untaken(name, kinds)]


async def all_of(store: Store) -> list[NoticeView]:
    return list(reversed((await store.notices.page()).items))


@pytest.mark.requirement("notice.by-kind")
async def test_each_has_a_place_of_its_own_in_what_it_wants(store: Store) -> None:
    await told(store, 3)
    for name in ("one", "two"):
        await store.notices.meet(name)
    first, second, third = await open_for(store, "one")

    await store.notices.taken("one", [first, third], now_ms=9)
    await store.notices.taken("one", [first], now_ms=99)

    assert await open_for(store, "one") == [second]
    assert await open_for(store, "two") == [first, second, third]
    assert await open_for(store, "two", [NoticeKind.APPROVAL]) == []
    assert [view.delivered_at_ms for view in await all_of(store)] == [9, None, 9]


async def test_what_is_taken_below_the_first_open_one_is_kept_as_one_number(store: Store) -> None:
    await told(store, 4, at_ms=LATE_MS - SETTLED_MS - 1)
    await store.notices.meet("ops")
    first, second, third, fourth = await open_for(store, "ops")
    await store.notices.taken("ops", [first, third], now_ms=LATE_MS)

    await store.notices.move_on("ops", tuple(NoticeKind), now_ms=LATE_MS)
    after_one = await open_for(store, "ops")
    await store.notices.taken("ops", [second, fourth], now_ms=LATE_MS)
    await store.notices.move_on("ops", tuple(NoticeKind), now_ms=LATE_MS)
    await told(store, 1, at_ms=LATE_MS)

    assert after_one == [second, fourth]
    assert len(await open_for(store, "ops")) == 1


async def test_what_is_recent_stays_open_for_a_lower_number_that_is_stored_later(
    store: Store,
) -> None:
    await told(store, 2, at_ms=LATE_MS)
    await store.notices.meet("ops")
    first, second = await open_for(store, "ops")

    # The first is as if its transaction had not ended yet.
    await store.notices.taken("ops", [second], now_ms=LATE_MS)
    await store.notices.move_on("ops", [NoticeKind.APPROVAL], now_ms=LATE_MS + SETTLED_MS - 1)

    assert await open_for(store, "ops") == [first]


async def test_who_is_met_later_hears_of_what_nobody_has_taken(store: Store) -> None:
    await told(store, 3)
    await store.notices.meet("first")
    numbers = await open_for(store, "first")
    await store.notices.taken("first", numbers[:2], now_ms=1)

    await store.notices.meet("second")
    await store.notices.meet("second")

    assert await open_for(store, "second") == numbers[2:]


async def test_a_lease_is_one_owners_until_it_ends(store: Store) -> None:
    book = store.notices
    await book.meet("ops")

    assert [
        await book.lease("ops", by=by, now_ms=now_ms, until_ms=now_ms + 100)
        for by, now_ms in (("one", 0), ("two", 50), ("one", 60), ("two", 160))
    ] == [True, False, True, True]


@pytest.mark.requirement("notice.approvals")
async def test_a_question_is_told_with_its_answer_and_without_its_arguments(store: Store) -> None:
    held = request({COST: 1})
    await store.ledger.admit(held)
    approval = question(held, arguments='{"path": "hidden"}', estimate=Amounts({COST: 1}))
    await store.approvals.open(approval, hold_expires_at_ms=60_000)
    await store.approvals.open(
        replace(approval, approval_id=ApprovalId("apr_2")), hold_expires_at_ms=60_000
    )
    await store.approvals.decide(
        approval.approval_id, ApprovalEvent.REJECT, by=ROOT, reason="no", now_ms=2_000
    )

    views = await all_of(store)
    details = [json.loads(view.detail) for view in views]
    assert [(view.kind, view.budget_id, view.unit, view.at_ms) for view in views] == [
        (NoticeKind.APPROVAL, None, None, 1_000),
        (NoticeKind.APPROVAL, None, None, 2_000),
    ]
    assert [(one["state"], one["decided_by"], one["reason"]) for one in details] == [
        ("pending", None, ""),
        ("rejected", "root", "no"),
    ]
    assert "hidden" not in json.dumps(details)


async def test_what_budgets_tell_has_a_budget_and_a_unit(store: Store) -> None:
    await store.budgets.create(budget({COST: 10}, warn_at_permille=(500,)), by=ROOT, now_ms=0)
    asked = request({COST: 6})
    await store.ledger.admit(asked)
    await store.ledger.settle(asked.reservation_id, used({COST: 6}), record(asked))
    await told(store, 1)

    threshold, denial = await all_of(store)
    assert (threshold.kind, threshold.unit) == (NoticeKind.THRESHOLD, COST)
    assert threshold.budget_id is not None
    assert (denial.kind, denial.budget_id, denial.unit) == (NoticeKind.DENIAL, None, None)
    assert json.loads(denial.detail) == {
        "reason": "loop_detected",
        "count": 7,
        "since_ms": 5,
        "kind": "model",
        "name": "small-1",
    }


async def test_notices_go_with_the_records(store: Store) -> None:
    await told(store, 200, at_ms=10)
    await told(store, 2, at_ms=1_000)

    await store.retention.purge(before_ms=500, now_ms=2_000)

    assert [view.at_ms for view in await all_of(store)] == [1_000, 1_000]
