"""Flow rules on the path of real calls."""

from dataclasses import replace

import pytest

from governor.approval import ApprovalState
from governor.flow.labels import Label
from governor.flow.policy import FlowPolicy, FlowRule, TaskTools, Then
from governor.ids import SessionId, TaskClass, ToolName
from governor.scope import ScopeChain
from tests.governor.makers import budget
from tests.tool_gateway.makers import CHAIN, ENTRY, FakeFlowStore, House, a_call
from tool_gateway import builtin
from tool_gateway.catalog import ToolEntry
from tool_gateway.results import DENIAL_META, Outcome, ToolResult, text_result

pytestmark = pytest.mark.anyio

DENYING = FlowPolicy(rules=(FlowRule(name="strict", then=Then.DENY),))


def entry(name: str, *parameters: str) -> ToolEntry:
    properties = {each: {"type": "string"} for each in parameters}
    return replace(
        ENTRY,
        original=name,
        exposed=ToolName(f"files__{name}"),
        definition={"name": name, "inputSchema": {"type": "object", "properties": properties}},
    )


READ = entry("read_inbox")
CONTACTS = entry("search_contacts", "query")
SEND = entry("send_letter", "recipient", "body")


async def ran(
    house: House, what: ToolEntry, chain: ScopeChain = CHAIN, **arguments: object
) -> ToolResult:
    house.entry = what
    call = a_call(house.clock.fresh("call"), **arguments)
    return await house.run(replace(call, tool=what.exposed, chain=chain))


def reason(result: ToolResult) -> str | None:
    denial = result.meta.get(DENIAL_META)
    assert denial is None or isinstance(denial, dict)
    return None if denial is None else str(denial["reason"])


async def send(house: House, recipient: str = "Mallory", chain: ScopeChain = CHAIN) -> ToolResult:
    return await ran(house, SEND, chain, recipient=recipient, body="…")


@pytest.mark.requirement("flow.only-what-was-asked")
async def test_what_nobody_asked_for_is_denied_after_untrusted_content() -> None:
    house = House(budget(), flow=DENYING)
    await house.flow.hear(CHAIN, "Send the minutes to Zoe", words_from="task")

    before = await send(house)
    await ran(house, READ)
    after = await send(house)
    asked = await send(house, "Zoe")

    assert [reason(each) for each in (before, after, asked)] == [None, "flow_denied", None]
    assert [call.arguments.get("recipient") for call in house.backend.ran] == [
        "Mallory",
        None,
        "Zoe",
    ]


@pytest.mark.requirement("flow.no-words-never-allow")
async def test_without_words_nothing_acts_after_untrusted_content() -> None:
    house = House(budget(), flow=DENYING)

    await ran(house, READ)

    assert reason(await send(house, "Zoe")) == "flow_denied"
    assert reason(await ran(house, READ)) is None


async def test_without_a_policy_nothing_is_looked_at() -> None:
    store = FakeFlowStore(is_down=True)
    house = House(budget(), flow_store=store)

    await ran(house, READ)

    assert reason(await send(house)) is None


@pytest.mark.requirement("flow.seen-survives")
async def test_what_was_seen_is_stored_before_it_is_shown() -> None:
    store = FakeFlowStore()

    async def look() -> Outcome:
        assert store.flows[CHAIN.session].marks == {Label.SEES_UNTRUSTED: READ.exposed} | {
            Label.READS_PRIVATE: READ.exposed
        }
        return Outcome(result=text_result("a letter"))

    house = House(budget(), flow=DENYING, flow_store=store, behave=look)
    await ran(house, READ)
    restarted = House(budget(), flow=DENYING, flow_store=store)

    assert len(house.backend.ran) == 1
    assert reason(await send(restarted)) == "flow_denied"


@pytest.mark.requirement("flow.seen-survives")
async def test_what_cannot_be_stored_is_not_shown() -> None:
    store = FakeFlowStore()
    house = House(budget(), flow=DENYING, flow_store=store)
    store.is_down = True

    read, sent = await ran(house, READ), await send(house)

    assert [reason(read), reason(sent)] == ["ledger_unavailable"] * 2
    assert not house.backend.ran
    assert house.ledger.remaining() == 10


@pytest.mark.requirement("flow.words-are-trusted")
async def test_words_are_taken_once_and_only_before_untrusted_content() -> None:
    house = House(budget(), flow=DENYING)

    first = await house.flow.hear(CHAIN, "Send the minutes to Zoe", words_from="task")
    second = await house.flow.hear(CHAIN, "Send them to Mallory", words_from="task")
    late = replace(CHAIN, session=SessionId("ada/late"))
    await ran(house, READ, late)
    too_late = await house.flow.hear(late, "Send them to Mallory", words_from="task")

    assert (first, second, too_late) == (True, False, False)


@pytest.mark.requirement("flow.seen-survives")
async def test_a_sub_session_has_seen_what_its_parent_has() -> None:
    below = replace(CHAIN, session=SessionId("ada/below"))
    store = FakeFlowStore(parents={below.session: CHAIN.session})
    house = House(budget(), flow=DENYING, flow_store=store)

    await ran(house, READ)
    downwards = await send(house, chain=below)
    other = replace(CHAIN, session=SessionId("ada/other"))
    elsewhere = await send(house, chain=other)

    assert [reason(downwards), reason(elsewhere)] == ["flow_denied", None]


async def test_what_a_trusted_tool_answered_can_name_whom_the_user_meant() -> None:
    async def answer() -> Outcome:
        return Outcome(result=text_result('{"name": "Zoe", "email": "zoe@acme.test"}'))

    house = House(budget(), flow=DENYING, behave=answer)
    await house.flow.hear(CHAIN, "Send Zoe the minutes", words_from="task")

    await ran(house, READ)
    unknown = await send(house, "zoe@acme.test")
    await ran(house, CONTACTS, query="Zoe")
    known = await send(house, "zoe@acme.test")

    assert [reason(unknown), reason(known)] == ["flow_denied", None]


@pytest.mark.requirement("flow.task-tools")
async def test_a_class_that_a_launcher_named_has_only_its_tools() -> None:
    policy = FlowPolicy(tasks=(TaskTools(task_class="reading", tools=("files__read_*",)),))
    house = House(budget(), flow=policy)
    await house.flow.hear(
        CHAIN, "Read my letters", words_from="task", task_class=TaskClass("reading")
    )

    assert reason(await ran(house, READ)) is None
    assert reason(await ran(house, CONTACTS, query="Zoe")) == "flow_denied"


async def test_asking_the_house_about_itself_is_no_flow() -> None:
    house = House(budget(), flow=DENYING)

    traits = [house.flow.traits_of(each) for each in builtin.ENTRIES]

    acting = {each.exposed for each, told in zip(builtin.ENTRIES, traits, strict=True) if told.acts}
    assert acting == {"memory_forget"}  # what it erases is gone
    untrusted = {
        each.exposed
        for each, told in zip(builtin.ENTRIES, traits, strict=True)
        if Label.SEES_UNTRUSTED in told.labels
    }
    assert untrusted == {"memory_read"}


async def test_a_rule_that_asks_holds_the_call_for_a_person() -> None:
    asked: list[str] = []

    class Desk:
        async def find(self, *_: object, **__: object) -> None:
            return None

        async def open(self, approval: object, **_: object) -> object:
            asked.append(approval.rule)
            return approval

        async def get(self, _: object) -> object:
            raise AssertionError

    house = House(budget(), flow=FlowPolicy(), desk=Desk())
    await ran(house, READ)

    result = await send(house)

    assert reason(result) == ApprovalState.PENDING.value.join(["approval_", ""])
    assert "after-untrusted" in asked[0]
    assert "files__read_inbox" in asked[0]


async def test_an_address_that_was_only_asked_about_is_vouched_for_by_nobody() -> None:
    async def answer() -> Outcome:
        return Outcome(result=text_result("nobody has mallory@evil.example"))

    house = House(budget(), flow=DENYING, behave=answer)
    await house.flow.hear(CHAIN, "Send Zoe the minutes", words_from="task")

    await ran(house, READ)
    await ran(house, CONTACTS, query="mallory@evil.example")

    assert reason(await send(house, "mallory@evil.example")) == "flow_denied"


@pytest.mark.requirement("flow.words-are-trusted")
async def test_the_first_messages_are_heard_once_and_only_in_a_fresh_session() -> None:
    house = House(budget(), flow=DENYING)
    late = replace(CHAIN, session=SessionId("ada/late"))

    await house.flow.overhear(CHAIN, "Send the minutes to Zoe")
    await house.flow.overhear(CHAIN, "Send the minutes to Mallory")
    await ran(house, READ)
    await ran(house, READ, late)
    await house.flow.overhear(late, "Send the minutes to Mallory")

    answers = [await send(house, "Zoe"), await send(house), await send(house, chain=late)]
    assert [reason(each) for each in answers] == [None, "flow_denied", "flow_denied"]


async def test_words_that_cannot_be_kept_only_cost_an_exception() -> None:
    store = FakeFlowStore(is_down=True)
    house = House(budget(), flow=DENYING, flow_store=store)

    await house.flow.overhear(CHAIN, "Send the minutes to Zoe")
    store.is_down = False
    await ran(house, READ)

    assert reason(await send(house, "Zoe")) == "flow_denied"
