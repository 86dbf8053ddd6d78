import anyio
import pytest

from governor.amounts import Amounts, Unit
from governor.events import Reserved
from governor.ids import ApprovalId
from tests.governor.makers import question
from tests.runtime.admin.admin_world import ADMIN, AGENT, SESSION, TENANT, World

pytestmark = pytest.mark.anyio

MINUTE_MS = 60_000


async def ask(world: World, number: int = 1) -> str:
    """Hold a call and ask about it, as the gateway would."""
    held = await world.admit(f"call-{number}")
    assert isinstance(held, Reserved)
    approval = question(
        held.reservation,
        approval_id=ApprovalId(f"apr-{number}"),
        arguments='{"path": "[redacted]"}',
        arguments_hash=f"hash-{number}",
        estimate=Amounts({Unit.TOOL_CALLS: 1}),
        created_at_ms=world.clock.now_ms() + number,
        expires_at_ms=world.clock.now_ms() + MINUTE_MS,
    )
    await world.parts.store.approvals.open(
        approval, hold_expires_at_ms=world.clock.now_ms() + 2 * MINUTE_MS
    )
    return approval.approval_id


async def test_a_question_is_shown_with_what_a_person_needs_to_decide(world: World) -> None:
    await ask(world)

    shown = (await world.get("/approvals/apr-1")).json()

    assert shown == {
        "id": "apr-1",
        "state": "pending",
        "call": "call-1",
        "tenant": TENANT,
        "agent": AGENT,
        "session": SESSION,
        "turn": None,
        "tool": "files__delete",
        "arguments": '{"path": "[redacted]"}',
        "arguments_sha256": "hash-1",
        "rule": "ask",
        "held": {"tool_calls": 1},
        "created_at_ms": world.clock.now_ms() + 1,
        "expires_at_ms": world.clock.now_ms() + MINUTE_MS,
        "decided_at_ms": None,
        "decided_by": None,
        "reason": "",
    }


async def test_questions_are_listed_by_state_and_in_pages(world: World) -> None:
    for number in range(3):
        await ask(world, number)
    await world.post("/approvals/apr-0/approve")

    async def found(**filters: object) -> list[str]:
        return [
            item["id"] for item in (await world.get("/approvals", params=filters)).json()["items"]
        ]

    assert await found() == ["apr-2", "apr-1", "apr-0"]
    assert await found(state="pending") == ["apr-2", "apr-1"]
    assert await found(state="approved") == ["apr-0"]
    assert await found(limit=1) == ["apr-2"]
    assert await found(tenant="acme", state="approved") == ["apr-0"]
    assert await found(tenant="other") == []


@pytest.mark.requirement("approval.first-answer-stands")
async def test_of_two_answers_the_first_stands_and_the_second_is_409(world: World) -> None:
    await ask(world)
    answers: dict[str, int] = {}

    async def answer(verb: str) -> None:
        answers[verb] = (await world.post(f"/approvals/apr-1/{verb}")).status_code

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, "approve")
            tasks.start_soon(answer, "reject")

    state = (await world.get("/approvals/apr-1")).json()["state"]
    assert sorted(answers.values()) == [200, 409]
    assert answers[{"approved": "approve", "rejected": "reject"}[state]] == 200


@pytest.mark.requirement("approval.no-is-released")
async def test_a_no_frees_the_hold_at_once_and_is_audited_with_its_reason(world: World) -> None:
    await ask(world)

    refused = await world.post("/approvals/apr-1/reject", {"reason": "not on a Friday"})

    call = (await world.get("/calls/call-1")).json()
    noted = (await world.get("/audit")).json()["items"][0]
    assert (refused.json()["state"], refused.json()["decided_by"]) == ("rejected", ADMIN)
    assert (call["status"], call["denial"]) == ("denied", "approval_rejected")
    assert call["charged"]["tool_calls"] == 0
    assert (noted["action"], noted["target"]) == ("approval.reject", "apr-1")
    assert noted["after"] == {"state": "rejected", "reason": "not on a Friday"}


async def test_an_answer_that_comes_too_late_is_409(world: World) -> None:
    await ask(world)
    world.clock.at_ms += MINUTE_MS

    late = await world.post("/approvals/apr-1/approve")

    assert late.status_code == 409
    assert "is over" in late.json()["detail"]


async def test_bad_answers_are_refused_and_change_nothing(world: World) -> None:
    await ask(world)

    answers = [
        await world.post("/approvals/apr-9/approve"),
        await world.get("/approvals/apr-9"),
        await world.post("/approvals/apr-1/approve", {"reason": 5}),
        await world.post("/approvals/apr-1/approve", {"reason": "x" * 1001}),
        await world.post("/approvals/apr-1/approve", {"why": "?"}),
        await world.get("/approvals", params={"state": "maybe"}),
        await world.post("/approvals/apr-1/approve", token=world.agent_secret),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 422, 422, 422, 422, 403]
    assert (await world.get("/approvals/apr-1")).json()["state"] == "pending"
