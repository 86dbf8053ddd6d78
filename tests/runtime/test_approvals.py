"""Calls that ask a person, over the real store: the whole path but the upstream."""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from governor.approval import ApprovalEvent, ApprovalState
from governor.call import CallStatus
from governor.denial import DenialReason
from governor.errors import InvalidTransitionError
from governor.ids import CallId
from memory_store.errors import NotFoundError
from tests.runtime.office import MINUTE_MS, Office, Opened, opener, reason_of
from tests.tool_gateway.makers import CHAIN, a_call
from tool_gateway.results import CALL_META, DENIAL_META, ToolResult

pytestmark = pytest.mark.anyio


@pytest.fixture
def open_office(begun_state: Path) -> Opened:
    return opener(begun_state)


@pytest.fixture
async def office(open_office: Opened) -> AsyncIterator[Office]:
    async with open_office() as opened:
        yield opened


@pytest.mark.requirement("approval.asks-before-running")
async def test_a_call_that_nobody_answers_keeps_its_hold_and_says_how_to_come_back(
    office: Office,
) -> None:
    result = await office.call(path="a")

    denial = result.meta[DENIAL_META]
    assert reason_of(result) == DenialReason.APPROVAL_PENDING
    assert denial["approval_id"].startswith("apr_")
    assert denial["retry_after_ms"] > 0
    assert office.house.backend.ran == []
    assert await office.held() == 1


@pytest.mark.requirement("approval.asks-before-running")
async def test_a_call_that_waits_runs_when_a_person_says_yes(open_office: Opened) -> None:
    results: list[ToolResult] = []
    async with open_office(wait_ms=MINUTE_MS) as office:

        async def call() -> None:
            results.append(await office.call(path="a"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await office.asked()
                assert office.house.backend.ran == []
                await office.answer(ApprovalEvent.APPROVE)

        assert [result.sole_text for result in results] == ["done"]
        assert (await office.held(), await office.used()) == (0, 1)


@pytest.mark.requirement("approval.no-is-released")
async def test_a_no_frees_the_hold_and_the_model_reads_the_reason(open_office: Opened) -> None:
    results: list[ToolResult] = []
    async with open_office(wait_ms=MINUTE_MS) as office:

        async def call() -> None:
            results.append(await office.call(path="a"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await office.asked()
                decided = await office.answer(ApprovalEvent.REJECT, reason="use the archive")

        assert reason_of(results[0]) == DenialReason.APPROVAL_REJECTED
        assert "use the archive" in results[0].meta[DENIAL_META]["remedy"]["text"]
        assert office.house.backend.ran == []
        assert (await office.held(), await office.used()) == (0, 0)
        record = (await office.store.calls.get(decided.call_id)).record
        assert (record.status, record.denial) == (
            CallStatus.DENIED,
            DenialReason.APPROVAL_REJECTED,
        )


@pytest.mark.requirement("approval.no-reaches-who-asked")
async def test_a_no_that_nobody_waited_for_is_what_the_retry_is_told(office: Office) -> None:
    await office.call(path="a")
    decided = await office.answer(ApprovalEvent.REJECT, reason="use the archive")

    retries = [await office.call(path="a"), await office.call(path="a")]
    other = await office.call(path="b")
    office.house.clock.at_ms += MINUTE_MS
    later = await office.call(path="a")

    for retry in retries:
        assert reason_of(retry) == DenialReason.APPROVAL_REJECTED
        assert retry.meta[DENIAL_META]["approval_id"] == decided.approval_id
        assert "use the archive" in retry.meta[DENIAL_META]["remedy"]["text"]
    # Another call, and the same one once the time of the question is over, ask anew.
    assert reason_of(other) == reason_of(later) == DenialReason.APPROVAL_PENDING
    assert later.meta[DENIAL_META]["approval_id"] != decided.approval_id


@pytest.mark.requirement("approval.used-once")
async def test_an_identical_call_takes_over_the_hold_that_was_approved_meanwhile(
    office: Office,
) -> None:
    await office.call(path="a")
    decided = await office.answer(ApprovalEvent.APPROVE)

    ran = await office.call(path="a")
    again = await office.call(path="a")

    assert ran.sole_text == "done"
    assert ran.meta[CALL_META]["call_id"] == decided.call_id
    assert (await office.store.calls.get(decided.call_id)).record.status is CallStatus.OK
    # The second is a question of its own.
    assert reason_of(again) == DenialReason.APPROVAL_PENDING
    assert again.meta[DENIAL_META]["approval_id"] != decided.approval_id
    assert (await office.held(), await office.used()) == (1, 1)


@pytest.mark.requirement("approval.used-once")
async def test_other_arguments_or_another_session_never_use_a_yes(office: Office) -> None:
    await office.call(path="a")
    await office.answer(ApprovalEvent.APPROVE)
    elsewhere = replace(
        a_call(office.house.clock.fresh("call"), path="a"),
        chain=replace(CHAIN, session="ada/two"),
    )

    others = [
        await office.call(path="b"),
        await office.call(path="a", more=1),
        await office.call(),
        await office.house.run(elsewhere),
    ]

    assert {reason_of(result) for result in others} == {DenialReason.APPROVAL_PENDING}
    assert office.house.backend.ran == []


@pytest.mark.requirement("approval.used-once")
async def test_of_many_retries_at_once_exactly_one_runs(office: Office) -> None:
    await office.call(path="a")
    await office.answer(ApprovalEvent.APPROVE)
    results: list[ToolResult] = []

    async def retry() -> None:
        results.append(await office.call(path="a"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(retry)

    assert sum(not result.is_error for result in results) == 1
    assert len(office.house.backend.ran) == 1
    assert await office.used() == 1
    others = {reason_of(result) for result in results if result.is_error}
    assert others <= {DenialReason.APPROVAL_USED, DenialReason.APPROVAL_PENDING}


async def test_calls_that_ask_the_same_at_once_share_one_question_and_one_hold(
    office: Office,
) -> None:
    async def ask() -> None:
        await office.call(path="a")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)

    assert len((await office.store.approvals.page()).items) == 1
    assert await office.held() == 1


@pytest.mark.requirement("approval.no-is-released")
async def test_a_client_that_goes_away_while_it_waits_takes_its_question_back(
    open_office: Opened,
) -> None:
    async with open_office(wait_ms=MINUTE_MS) as office:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: office.call(path="a"))
                await office.asked()
                tasks.cancel_scope.cancel()

        (asked,) = (await office.store.approvals.page()).items
        assert asked.state is ApprovalState.WITHDRAWN
        assert await office.held() == 0
        record = (await office.store.calls.get(asked.call_id)).record
        assert record.status is CallStatus.CANCELLED


async def test_a_client_that_goes_away_after_it_was_told_to_come_back_leaves_the_question(
    open_office: Opened,
) -> None:
    async with open_office() as office:
        await office.call(path="a")
    async with open_office(wait_ms=MINUTE_MS) as office:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: office.call(path="a"))
                await _waiting(office)
                tasks.cancel_scope.cancel()

        (asked,) = (await office.store.approvals.page()).items
        assert asked.state is ApprovalState.PENDING
        assert await office.held() == 1


async def test_a_call_that_joined_keeps_the_question_when_the_first_one_goes_away(
    open_office: Opened,
) -> None:
    results: list[ToolResult] = []
    async with open_office(wait_ms=MINUTE_MS) as office:

        async def join() -> None:
            results.append(await office.call(path="a"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                async with anyio.create_task_group() as first:
                    first.start_soon(lambda: office.call(path="a"))
                    await office.asked()
                    tasks.start_soon(join)
                    await _waiting(office, 2)
                    first.cancel_scope.cancel()
                await office.answer(ApprovalEvent.APPROVE)

        assert [result.sole_text for result in results] == ["done"]


@pytest.mark.parametrize("event", [ApprovalEvent.APPROVE, ApprovalEvent.REJECT])
async def test_an_answer_and_a_client_that_goes_away_leave_no_hold_behind_and_no_double_use(
    open_office: Opened, event: ApprovalEvent
) -> None:
    async with open_office(wait_ms=MINUTE_MS) as office:
        for round_ in range(20):
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(lambda: office.call(path=f"{round_}"))  # noqa: B023
                    await office.asked()
                    tasks.start_soon(_answer_if_asked, office, event)
                    for _ in range(round_):
                        await anyio.lowlevel.checkpoint()
                    tasks.cancel_scope.cancel()
        office.house.clock.at_ms += 3 * MINUTE_MS
        await office.house.approver.sweep()

        states = {asked.state for asked in (await office.store.approvals.page()).items}
        assert await office.held() == 0
        assert ApprovalState.PENDING not in states
        assert len(office.house.backend.ran) <= await office.used() <= 20


async def _answer_if_asked(office: Office, event: ApprovalEvent) -> None:
    for asked in (await office.store.approvals.page(state=ApprovalState.PENDING)).items:
        with suppress(InvalidTransitionError):
            await office.decide(asked, event)


@pytest.mark.requirement("approval.no-is-released")
async def test_a_question_that_runs_out_frees_its_hold_and_wakes_the_call(
    open_office: Opened,
) -> None:
    results: list[ToolResult] = []
    async with open_office(wait_ms=MINUTE_MS) as office:

        async def call() -> None:
            results.append(await office.call(path="a"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await office.asked()
                office.house.clock.at_ms += MINUTE_MS
                await office.house.approver.sweep()

        assert reason_of(results[0]) == DenialReason.APPROVAL_EXPIRED
        assert (await office.held(), await office.used()) == (0, 0)


@pytest.mark.requirement("approval.outlives-restart")
async def test_a_question_is_answered_and_its_call_run_after_a_restart(
    open_office: Opened,
) -> None:
    async with open_office() as office:
        await office.call(path="a")
    async with open_office() as office:
        now_ms = office.house.clock.now_ms()
        await office.store.ledger.expire_due(now_ms=now_ms, all_live=True)
        await office.answer(ApprovalEvent.APPROVE)

        ran = await office.call(path="a")

        assert ran.sole_text == "done"
        assert (await office.held(), await office.used()) == (0, 1)


async def test_what_a_stop_interrupts_waits_on_for_its_answer(open_office: Opened) -> None:
    results: list[ToolResult] = []
    async with open_office(wait_ms=MINUTE_MS) as office:

        async def call() -> None:
            results.append(await office.call(path="a"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await _waiting(office)
                office.house.running.stop_all(why="the sidecar stops")

        assert reason_of(results[0]) == DenialReason.APPROVAL_PENDING
        assert await office.held() == 1


async def test_a_rule_that_asks_nobody_asks_nobody(office: Office) -> None:
    policy = office.house.policy
    rule = replace(policy.rules[0], approval=None)
    office.house.policy = replace(policy, rules=(rule,))

    result = await office.call(path="a")

    assert result.sole_text == "done"
    assert (await office.store.approvals.page()).items == ()


async def test_a_retry_under_the_same_key_joins_its_own_question(office: Office) -> None:
    await office.call(key="k", path="a")
    await office.answer(ApprovalEvent.APPROVE)

    ran = await office.call(key="k", path="a")
    replayed = await office.call(key="k", path="a")

    assert ran.sole_text == replayed.sole_text == "done"
    assert replayed.meta[CALL_META]["replayed"] is True
    assert len(office.house.backend.ran) == 1


async def test_a_budget_that_is_short_denies_before_anybody_is_asked(office: Office) -> None:
    for number in range(10):
        await office.call(path=number)

    result = await office.call(path="one more")

    assert reason_of(result) == DenialReason.BUDGET_EXHAUSTED
    assert len((await office.store.approvals.page()).items) == 10


async def test_with_the_store_down_nothing_is_asked_and_nothing_runs(office: Office) -> None:
    office.store.writer.stop_taking()

    result = await office.call(path="a")

    assert reason_of(result) == DenialReason.LEDGER_UNAVAILABLE
    assert office.house.backend.ran == []


async def test_no_record_stands_in_the_way_of_the_calls_own(office: Office) -> None:
    await office.call(path="a")
    (asked,) = (await office.store.approvals.page()).items

    with pytest.raises(NotFoundError):
        await office.store.calls.get(CallId(asked.call_id))


async def _waiting(office: Office, count: int = 1) -> None:
    while sum(waiting.calls for waiting in office.house.approver._waiting.values()) < count:
        await anyio.lowlevel.checkpoint()
