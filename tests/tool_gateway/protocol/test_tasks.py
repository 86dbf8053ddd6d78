"""Tasks that upstreams go on with: whose they are, and what is shown of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from governor.access import Access, AccessRule, Choice
from governor.call import CallStatus
from governor.content import ContentTerms
from governor.ids import PrincipalId, SessionId, TenantId, ToolName
from governor.policy import TASK_METHODS, Match, ToolRule
from governor.scope import ScopeChain
from tests.governor.makers import budget
from tests.tool_gateway.makers import CHAIN, ENTRY, RULE, House
from tests.tool_gateway.protocol.stage import ADA, BOB
from tests.tool_gateway.protocol.test_governed_offers import CONTEXT, Desk, FakeRelay, reason
from tool_gateway.errors import OfferDeniedError, UnknownOfferError, UpstreamFailedError
from tool_gateway.exchange import NOBODY
from tool_gateway.identity import Caller
from tool_gateway.known_tasks import KnownTasks
from tool_gateway.results import REDACTED_META, Json, Outcome, ToolResult

pytestmark = pytest.mark.anyio

KEY = "AKIAABCDEFGHIJKLMNOP"
TOOL = replace(ENTRY, exposed=ToolName("one__dig"), original="dig", backend=FakeRelay.name)
STRANGER = Caller(tenant=TenantId("other"), agent=ADA.agent, token_id="tok_eve")
DONE = {
    "taskId": "t-1",
    "status": "completed",
    "result": {"content": [{"type": "text", "text": f"key {KEY}"}]},
}


async def begun() -> Outcome:
    extra = {"resultType": "task", "taskId": "t-1", "status": "working"}
    return Outcome(result=ToolResult(content=(), extra=extra))


async def desk_with_a_task(*rules: ToolRule, calls: int = 1) -> Desk:
    """Return a desk at which ada has begun a task, with her last call."""
    desk = Desk(House(budget("calls", tool_calls=calls), behave=begun))
    desk.house.policy = replace(desk.house.policy, rules=rules)
    desk.stock.replace([TOOL])
    desk.relay.answers |= dict.fromkeys(TASK_METHODS, DONE)
    answer = await desk.gateway.call(ADA, CONTEXT, tool=TOOL.exposed, arguments={})
    assert answer.extra["taskId"] == "t-1"
    return desk


async def ask(
    desk: Desk, method: str = "tasks/get", *, caller: Caller = ADA, is_read_only: bool = False
) -> Json:
    context = replace(CONTEXT, is_read_only=is_read_only)
    return await desk.relaying.ask_about_task(
        method, caller, {"taskId": "t-1"}, NOBODY, context=context
    )


@pytest.mark.requirement("protocol.tasks-are-their-agents")
@pytest.mark.parametrize("method", TASK_METHODS)
@pytest.mark.parametrize("caller", [BOB, STRANGER])
async def test_a_task_is_unknown_to_whoever_did_not_begin_it(caller: Caller, method: str) -> None:
    desk = await desk_with_a_task()

    with pytest.raises(UnknownOfferError):
        await ask(desk, method, caller=caller)

    assert desk.relay.asked == []


@pytest.mark.requirement("protocol.tasks-are-their-agents")
async def test_a_task_goes_on_as_part_of_its_call_and_is_recorded() -> None:
    desk = await desk_with_a_task()

    answers = [await ask(desk) for _ in range(20)]

    assert all(answer["status"] == "completed" for answer in answers)
    record = desk.house.ledger.records[-1]
    assert (record.name, record.status) == ("one__tasks/get", CallStatus.OK)
    assert desk.house.ledger.remaining() == 0


@pytest.mark.requirement("redaction.results")
async def test_a_tasks_result_is_shown_as_the_rule_of_its_tool_wants_it() -> None:
    redacting = ContentTerms(redact=("cloud_keys",))
    named = replace(RULE, match=Match(tool="one__dig"), content=redacting)
    desk = await desk_with_a_task(named)

    answer: Any = await ask(desk)

    assert KEY not in str(answer)
    assert answer["_meta"][REDACTED_META] == {"cloud_keys": 1}
    assert answer["taskId"] == "t-1"


async def test_a_tasks_result_that_is_too_large_is_not_shown() -> None:
    short = replace(RULE, match=Match(tool="one__dig"), content=ContentTerms(result_bytes_max=64))
    desk = await desk_with_a_task(short)

    with pytest.raises(UpstreamFailedError, match="result_bytes_max"):
        await ask(desk)


@pytest.mark.requirement("protocol.tasks-are-their-agents")
async def test_a_frozen_session_has_nothing_of_its_tasks() -> None:
    desk = await desk_with_a_task()
    desk.house.ledger.frozen.add(SessionId(f"{ADA.agent}/one"))

    with pytest.raises(OfferDeniedError) as caught:
        await ask(desk)

    assert reason(caught) == "session_frozen"
    assert desk.relay.asked == []


@pytest.mark.requirement("protocol.tasks-are-their-agents")
@pytest.mark.parametrize("method", ["tasks/update", "tasks/cancel"])
async def test_whoever_may_only_read_acts_on_no_task(method: str) -> None:
    desk = await desk_with_a_task()

    await ask(desk, "tasks/get", is_read_only=True)
    with pytest.raises(OfferDeniedError) as caught:
        await ask(desk, method, is_read_only=True)

    assert reason(caught) == "read_only"
    assert desk.relay.asked == ["tasks/get"]


def deny_by_rule(desk: Desk) -> None:
    denying = replace(RULE, match=Match(tool="one__dig"), allow=False)
    desk.house.policy = replace(desk.house.policy, rules=(denying,))


def deny_by_access(desk: Desk) -> None:
    access = Access(rules=(AccessRule(name="r", tools=Choice(deny=("one__dig",))),))
    desk.house.policy = replace(desk.house.policy, access=access)


@pytest.mark.requirement("protocol.tasks-are-their-agents")
@pytest.mark.parametrize("deny", [deny_by_rule, deny_by_access])
async def test_a_tool_that_was_forbidden_meanwhile_shows_no_more_of_its_tasks(
    deny: Callable[[Desk], None],
) -> None:
    desk = await desk_with_a_task()
    deny(desk)

    with pytest.raises(UnknownOfferError):
        await ask(desk)


def a_task(name: str) -> ToolResult:
    return ToolResult(content=(), extra={"taskId": name})


def of_agent(name: str) -> ScopeChain:
    return replace(CHAIN, agent=PrincipalId(name))


def known_of(tasks: KnownTasks, agent: str, *names: str) -> list[str]:
    chain = of_agent(agent)
    return [
        name
        for name in names
        if tasks.tool_of(name, tenant=chain.tenant, agent=chain.agent) is not None
    ]


async def test_an_agent_with_many_tasks_loses_its_own_oldest_and_nobody_elses() -> None:
    tasks = KnownTasks(tasks_max=3, per_agent_max=2)
    tasks.note(of_agent("bob"), a_task("b1"), TOOL)

    for name in ("a1", "a2", "a3", "a3"):
        tasks.note(of_agent("ada"), a_task(name), TOOL)
    tasks.note(of_agent("cleo"), a_task("c1"), TOOL)

    assert known_of(tasks, "ada", "a1", "a2", "a3") == ["a3"]
    assert known_of(tasks, "bob", "b1") == ["b1"]
    assert known_of(tasks, "cleo", "c1") == ["c1"]
