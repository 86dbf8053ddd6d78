from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from contracts.builders import COST, SESSION, chain, record, request

from governor.admission import AdmissionRequest
from governor.amounts import Amounts
from governor.approval import Approval, ApprovalEvent, ApprovalState
from governor.denial import DenialReason, Denied
from governor.errors import InvalidTransitionError
from governor.events import Reserved
from governor.ids import ApprovalId
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.errors import NotFoundError
from memory_store.store import Store, open_store
from tests.governor.makers import question

pytestmark = pytest.mark.anyio

EVE, MALLORY = Actor(name="eve"), Actor(name="mallory")
DUE_MS = 60_000
NOW_MS = 2_000
TAKEN_UNTIL_MS = 5_000


def about(held: AdmissionRequest, *, arguments: str = "a") -> Approval:
    return question(
        held,
        arguments_hash=arguments,
        turn=held.turn,
        estimate=Amounts({COST: 5}),
        created_at_ms=held.now_ms,
        expires_at_ms=DUE_MS,
    )


async def ask(store: Store, *, arguments: str = "a", session: str = SESSION) -> Approval:
    held = replace(request({COST: 5}, of=chain(session=session)), outlives_process=True)
    assert isinstance(await store.ledger.admit(held), Reserved)
    return await store.approvals.open(about(held, arguments=arguments), hold_expires_at_ms=DUE_MS)


async def take(store: Store, approval_id: ApprovalId) -> Reserved | Approval | Denied:
    return await store.approvals.take(approval_id, now_ms=NOW_MS, hold_expires_at_ms=TAKEN_UNTIL_MS)


async def answer(store: Store, asked: Approval, event: ApprovalEvent, by: Actor = EVE) -> Approval:
    return await store.approvals.decide(
        asked.approval_id, event, by=by, reason="because", now_ms=NOW_MS
    )


@pytest.mark.requirement("approval.first-answer-stands")
async def test_of_two_people_the_first_one_decides_and_the_second_is_told(store: Store) -> None:
    asked = await ask(store)
    told: list[str] = []

    async def decide(event: ApprovalEvent, by: Actor) -> None:
        try:
            await answer(store, asked, event, by)
        except InvalidTransitionError:
            told.append(by.name)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(decide, ApprovalEvent.REJECT, EVE)
            tasks.start_soon(decide, ApprovalEvent.APPROVE, MALLORY)

    stands = await store.approvals.get(asked.approval_id)
    assert told == ["mallory"]
    assert (stands.state, stands.decided_by, stands.reason) == (
        ApprovalState.REJECTED,
        "eve",
        "because",
    )
    noted = (await store.audit.page()).items[0]
    assert (noted.actor, noted.action, noted.target) == (
        "eve",
        "approval.reject",
        asked.approval_id,
    )


@pytest.mark.requirement("approval.used-once")
async def test_a_yes_is_used_once_in_a_thousand_tries(store: Store) -> None:
    asked = await ask(store)
    await answer(store, asked, ApprovalEvent.APPROVE)
    got: list[Reserved | Approval | Denied] = []

    async def take_it() -> None:
        got.append(await take(store, asked.approval_id))

    with anyio.fail_after(60):
        for _ in range(10):
            async with anyio.create_task_group() as tasks:
                for _ in range(100):
                    tasks.start_soon(take_it)

    holds = [taken for taken in got if isinstance(taken, Reserved)]
    assert len(got) == 1_000
    assert [hold.reservation.reservation_id for hold in holds] == [asked.reservation_id]
    assert holds[0].amount == Amounts({COST: 5})


@pytest.mark.parametrize("is_expiry_first", [True, False])
async def test_a_yes_and_the_end_of_its_time_are_served_one_after_the_other(
    store: Store, *, is_expiry_first: bool
) -> None:
    asked = await ask(store)

    async def approve() -> None:
        with pytest.raises(InvalidTransitionError) if is_expiry_first else anyio.CancelScope():
            await answer(store, asked, ApprovalEvent.APPROVE)

    async def expire() -> None:
        await store.approvals.expire_due(now_ms=DUE_MS)

    order = [expire, approve] if is_expiry_first else [approve, expire]
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for work in order:
                tasks.start_soon(work)

    # Whoever was first: at the end of its time nothing can be run on it.
    assert (await store.approvals.get(asked.approval_id)).state is ApprovalState.EXPIRED
    assert isinstance(await take(store, asked.approval_id), Approval)


async def test_an_answer_that_comes_too_late_is_refused_before_anybody_noted_the_end(
    store: Store,
) -> None:
    asked = await ask(store)

    with pytest.raises(InvalidTransitionError, match="is over"):
        await store.approvals.decide(
            asked.approval_id, ApprovalEvent.APPROVE, by=EVE, reason="", now_ms=DUE_MS
        )

    assert (await store.approvals.get(asked.approval_id)).state is ApprovalState.PENDING


async def test_a_client_that_goes_away_does_not_take_back_an_answer(store: Store) -> None:
    asked = await ask(store)
    await answer(store, asked, ApprovalEvent.APPROVE)

    stands = await store.approvals.withdraw(asked.approval_id, now_ms=NOW_MS)

    assert stands.state is ApprovalState.APPROVED


async def test_a_question_that_was_withdrawn_cannot_be_answered(store: Store) -> None:
    asked = await ask(store)
    await store.approvals.withdraw(asked.approval_id, now_ms=NOW_MS)

    with pytest.raises(InvalidTransitionError):
        await answer(store, asked, ApprovalEvent.APPROVE)


async def test_the_same_question_is_asked_once_at_a_time(store: Store) -> None:
    first = await ask(store)

    again = await ask(store)
    other_arguments = await ask(store, arguments="b")
    other_session = await ask(store, session="ses_two")

    assert again == first
    assert len({first.approval_id, other_arguments.approval_id, other_session.approval_id}) == 3


async def test_a_question_whose_time_is_over_makes_room_for_the_same_one(store: Store) -> None:
    first = await ask(store)
    held = request({COST: 5}, now_ms=DUE_MS, expires_at_ms=DUE_MS + 10)
    await store.ledger.admit(held)

    late = replace(about(held), expires_at_ms=DUE_MS + 1_000)
    second = await store.approvals.open(late, hold_expires_at_ms=DUE_MS + 2_000)

    assert second.approval_id != first.approval_id
    assert (await store.approvals.get(first.approval_id)).state is ApprovalState.EXPIRED


async def test_only_the_question_to_the_letter_is_found(store: Store) -> None:
    asked = (await ask(store)).asked

    found = [
        await store.approvals.find(question, now_ms=now_ms)
        for question, now_ms in (
            (asked, NOW_MS),
            (asked, DUE_MS),
            (replace(asked, arguments_hash="b"), NOW_MS),
            (replace(asked, session="ses_other"), NOW_MS),
            (replace(asked, agent="bob"), NOW_MS),
            (replace(asked, tool="other"), NOW_MS),
        )
    ]

    assert [question is not None for question in found] == [True, *[False] * 5]


async def test_an_open_question_keeps_its_hold_from_the_reaper(store: Store) -> None:
    await ask(store)

    early = await store.ledger.expire_due(now_ms=DUE_MS - 1)
    late = await store.ledger.expire_due(now_ms=DUE_MS)

    assert (len(early), len(late)) == (0, 1)


@pytest.mark.requirement("approval.outlives-restart")
async def test_questions_and_their_holds_outlive_a_restart_and_other_holds_do_not(
    tmp_path: Path,
) -> None:
    async with open_store(tmp_path / "s", durability=Durability.PROCESS) as store:
        asked = await ask(store)
        await answer(store, asked, ApprovalEvent.APPROVE)
        await store.ledger.admit(request({COST: 1}))

    async with open_store(tmp_path / "s", durability=Durability.PROCESS) as store:
        ended = await store.ledger.expire_due(now_ms=NOW_MS, all_live=True)
        taken = await take(store, asked.approval_id)

    assert len(ended) == 1
    assert isinstance(taken, Reserved)


async def test_a_closed_session_uses_no_yes_and_its_questions_are_given_up(store: Store) -> None:
    asked = await ask(store)
    await answer(store, asked, ApprovalEvent.APPROVE)
    await store.sessions.close(SESSION, by=EVE, now_ms=NOW_MS)

    taken = await take(store, asked.approval_id)
    ended = await store.approvals.expire_due(now_ms=NOW_MS)

    assert isinstance(taken, Denied)
    assert taken.reason is DenialReason.SESSION_CLOSED
    assert ended == 1
    assert await store.approvals.given_up_with_a_hold() == (
        replace(
            asked,
            state=ApprovalState.EXPIRED,
            decided_at_ms=NOW_MS,
            decided_by="eve",
            reason="because",
        ),
    )


async def test_a_yes_whose_hold_was_ended_by_time_runs_nothing(store: Store) -> None:
    asked = await ask(store)
    await answer(store, asked, ApprovalEvent.APPROVE)
    await store.ledger.expire_due(now_ms=DUE_MS)

    taken = await take(store, asked.approval_id)

    assert isinstance(taken, Approval)
    assert taken.state is ApprovalState.EXPIRED


@pytest.mark.requirement("approval.used-once")
@pytest.mark.parametrize("is_restart", [True, False])
async def test_a_hold_that_was_taken_ends_like_that_of_any_call(
    store: Store, *, is_restart: bool
) -> None:
    asked = await ask(store)
    await answer(store, asked, ApprovalEvent.APPROVE)
    await take(store, asked.approval_id)
    await store.ledger.forward(asked.reservation_id)

    early = await store.ledger.expire_due(now_ms=TAKEN_UNTIL_MS - 1)
    ended = await store.ledger.expire_due(
        now_ms=NOW_MS if is_restart else TAKEN_UNTIL_MS, all_live=is_restart
    )

    assert early == ()
    assert [one.reservation.reservation_id for one in ended] == [asked.reservation_id]


async def test_what_was_given_up_is_named_until_its_hold_has_ended(store: Store) -> None:
    held = request({COST: 5})
    await store.ledger.admit(held)
    asked = await store.approvals.open(about(held), hold_expires_at_ms=DUE_MS)
    await answer(store, asked, ApprovalEvent.REJECT)

    before = await store.approvals.given_up_with_a_hold()
    await store.ledger.release(held.reservation_id, record(held))
    after = await store.approvals.given_up_with_a_hold()

    assert [approval.approval_id for approval in before] == [asked.approval_id]
    assert after == ()


async def test_pages_hold_every_approval_of_a_state_once(store: Store) -> None:
    asked = [await ask(store, arguments=str(number)) for number in range(5)]
    await answer(store, asked[0], ApprovalEvent.APPROVE)

    first = await store.approvals.page(state=ApprovalState.PENDING, limit=3)
    second = await store.approvals.page(state=ApprovalState.PENDING, cursor=first.next, limit=3)

    found = {item.approval_id for item in (*first.items, *second.items)}
    assert found == {approval.approval_id for approval in asked[1:]}
    assert (len(first.items), len(second.items), second.next) == (3, 1, None)


async def test_an_approval_that_never_was_is_not_found(store: Store) -> None:
    nobody = ApprovalId("apr_nobody")

    with pytest.raises(NotFoundError):
        await store.approvals.get(nobody)
    with pytest.raises(NotFoundError):
        await take(store, nobody)


async def test_an_approval_is_removed_with_its_call(store: Store) -> None:
    held = request({COST: 5})
    await store.ledger.admit(held)
    asked = await store.approvals.open(about(held), hold_expires_at_ms=DUE_MS)
    await answer(store, asked, ApprovalEvent.REJECT)
    await store.ledger.release(held.reservation_id, record(held, ended_at_ms=3_000))

    await store.retention.purge(before_ms=4_000, now_ms=9_000)

    assert (await store.approvals.page()).items == ()
