"""Resources, prompts and completion on the governed path."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from governor.access import Access, AccessRule, Choice
from governor.call import CallStatus
from governor.content import ContentTerms
from governor.flow.labels import Label
from governor.flow.policy import FlowPolicy, FlowRule, Then
from governor.ids import SessionId, ToolName, UpstreamName
from governor.policy import COMPLETE, Match
from tests.governor.makers import budget
from tests.tool_gateway.credential_samples import AWS_KEY as KEY
from tests.tool_gateway.finding_makers import a_finder
from tests.tool_gateway.makers import RULE, House
from tests.tool_gateway.protocol.stage import ADA, NEW, OLD, Stage, stage
from tool_gateway.changes import Changes
from tool_gateway.errors import (
    OfferDeniedError,
    UnknownOfferError,
    UpstreamDownError,
    UpstreamError,
    UpstreamFailedError,
    UpstreamLostError,
    UpstreamNotReachedError,
    UpstreamSaidError,
)
from tool_gateway.exchange import NOBODY, Exchange
from tool_gateway.gateway import Gateway
from tool_gateway.identity import CallContext
from tool_gateway.ports import Backend, Meter
from tool_gateway.relaying import RESOURCES, Relaying
from tool_gateway.relays import Presence, PresenceState, ServerFace
from tool_gateway.results import Json
from tool_gateway.sessions import ImplicitSessions
from tool_gateway.stock import Stock

pytestmark = pytest.mark.anyio
URI = "mem://note"
CONTEXT = CallContext(session_name="one", turn=None, idempotency_key=None)
FACE = ServerFace(
    capabilities={"resources": {}, "prompts": {}, "completions": {}},
    instructions=None,
    implementation=None,
    has_sessions=False,
)
ANSWERS: dict[str, Json] = {
    "resources/list": {"resources": [{"uri": URI, "name": "note"}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "mem://{+any}"}]},
    "resources/read": {"contents": [{"uri": URI, "text": "a note"}]},
    "prompts/get": {"messages": []},
    "completion/complete": {"completion": {"values": ["a"]}},
}


@dataclass
class FakeRelay:
    """An upstream that answers from a table and counts what it was asked."""

    backend: Backend
    answers: dict[str, Json] = field(default_factory=lambda: dict(ANSWERS))
    asked: list[str] = field(default_factory=list)
    fails: UpstreamError | None = None
    name = UpstreamName("one")
    is_prefixed = True
    face = FACE
    presence = Presence(state=PresenceState.OK)

    async def started(self) -> None:
        pass

    def backend_for(self, exchange: Exchange) -> Backend:
        return self.backend

    async def request(
        self,
        method: str,
        params: Json,
        exchange: Exchange,
        *,
        wall_ms: int,
        meter: Meter | None = None,
    ) -> Json:
        self.asked.append(method)
        if self.fails is not None and method == "resources/read":
            raise self.fails
        return self.answers[method]


class Desk:
    """A relaying over one upstream, and the house that its calls are charged to."""

    def __init__(self, house: House) -> None:
        self.house = house
        house.policy = replace(house.policy, fallback=replace(RULE, match=Match()))
        self.stock = stock = Stock(())
        self.gateway = gateway = Gateway(
            stock=stock,
            pipeline=house.pipeline,
            books=house.books,
            backends={FakeRelay.name: house.backend},
            policy=lambda: house.policy,
            sessions=ImplicitSessions(clock=house.clock, idle_ms=1_000),
            session_naming=lambda agent, name: SessionId(f"{agent}/{name}"),
            clock=house.clock,
            finder=a_finder(stock=stock, house=house),
        )
        self.relay = FakeRelay(house.backend)
        self.relaying = Relaying(
            relays={self.relay.name: self.relay},  # type: ignore[dict-item]  # as far as it is used
            calls=gateway.offer_calls(),
            tasks=gateway.tasks,
            policy=lambda: house.policy,
            changes=Changes(),
            elapsed_ms=house.clock.elapsed_ms,
        )

    async def read(self, uri: str = URI) -> Json:
        return await self.relaying.read(ADA, {"uri": uri}, NOBODY, context=CONTEXT)

    async def get(self) -> Json:
        params = {"name": "one__greet", "arguments": {}}
        return await self.relaying.get_prompt(ADA, params, NOBODY, context=CONTEXT)

    async def complete(self) -> Json:
        params = {"ref": {"type": "ref/prompt", "name": "one__greet"}, "argument": {}}
        return await self.relaying.complete(ADA, params, NOBODY, context=CONTEXT)


def redacting(desk: Desk) -> None:
    """Have secrets taken out of what is shown from now on."""
    content = ContentTerms(redact=("cloud_keys",))
    fallback = replace(desk.house.policy.fallback, content=content)
    desk.house.policy = replace(desk.house.policy, rules=(), fallback=fallback)


def a_redacting_desk() -> Desk:
    desk = Desk(House(budget("calls", tool_calls=10)))
    redacting(desk)
    return desk


def charged(answer: Json) -> Any:
    meta: Any = answer["_meta"]
    return meta["flyball/call"].get("usage", {}).get("tool_calls", 0)


def reason(caught: pytest.ExceptionInfo[OfferDeniedError]) -> object:
    return caught.value.denial["reason"]


@pytest.mark.requirement("protocol.offers-are-governed")
@pytest.mark.parametrize("ask", [Desk.read, Desk.get])
async def test_what_is_read_or_got_is_charged_and_recorded(ask: Callable[[Desk], Any]) -> None:
    desk = Desk(House(budget("calls", tool_calls=1)))

    answer = await ask(desk)
    with pytest.raises(OfferDeniedError) as caught:
        await ask(desk)

    assert charged(answer) == 1
    assert reason(caught) == "budget_exhausted"
    ran, denied = desk.house.ledger.records
    assert ran.name == denied.name == f"one__{desk.relay.asked[-1]}"
    assert [ran.status, denied.status] == [CallStatus.OK, CallStatus.DENIED]
    assert len(desk.relay.asked) == 1


async def test_completing_costs_nothing_unless_a_rule_names_it() -> None:
    desk = Desk(House(budget("calls", tool_calls=1, cost_microusd=10)))
    free = [charged(await desk.complete()) for _ in range(3)]
    naming = replace(RULE, match=Match(tool=f"one__{COMPLETE}"), cost_microusd=7)
    desk.house.policy = replace(desk.house.policy, rules=(naming,))

    await desk.complete()
    with pytest.raises(OfferDeniedError) as caught:
        await desk.complete()

    assert free == [0, 0, 0]
    assert reason(caught) == "budget_exhausted"


async def test_completing_goes_on_where_no_call_is_left() -> None:
    desk = Desk(House(budget("calls", tool_calls=0)))

    answers = [await desk.complete() for _ in range(20)]

    assert all(answer["completion"] == {"values": ["a"]} for answer in answers)


@pytest.mark.parametrize("ask", [Desk.read, Desk.get, Desk.complete])
async def test_a_frozen_session_is_given_nothing(ask: Callable[[Desk], Any]) -> None:
    desk = Desk(House(budget()))
    desk.house.ledger.frozen.add(SessionId(f"{ADA.agent}/one"))

    with pytest.raises(OfferDeniedError) as caught:
        await ask(desk)

    assert reason(caught) == "session_frozen"
    assert desk.relay.asked == []


async def test_what_may_be_given_again_is_charged_nothing_and_still_governed() -> None:
    desk = Desk(House(budget("calls", tool_calls=1)))
    desk.relay.answers["resources/read"] = {**ANSWERS["resources/read"], "ttlMs": 60_000}

    first, second = await desk.read(), await desk.read()
    desk.house.ledger.frozen.add(SessionId(f"{ADA.agent}/one"))
    with pytest.raises(OfferDeniedError) as caught:
        await desk.read()

    assert desk.relay.asked == ["resources/read"]
    assert [charged(first), charged(second)] == [1, 0]
    assert second["contents"] == first["contents"]
    assert reason(caught) == "session_frozen"


async def test_what_a_resource_shows_is_marked_before_it_is_shown() -> None:
    desk = Desk(House(budget(), flow=FlowPolicy(rules=())))

    await desk.read()

    (known,) = desk.house.flow_store.flows.values()
    assert set(known.marks) == {Label.READS_PRIVATE, Label.SEES_UNTRUSTED}
    assert set(known.marks.values()) == {ToolName("one__resources/read")}


async def test_a_uri_that_was_not_listed_can_carry_something_out() -> None:
    strict = FlowPolicy(rules=(FlowRule(name="strict", then=Then.DENY),))
    desk = Desk(House(budget(), flow=strict))
    await desk.relaying.listed(RESOURCES, ADA, {}, NOBODY)
    await desk.read()

    again = await desk.read()
    with pytest.raises(OfferDeniedError) as caught:
        await desk.read("mem://away/the-secret")

    assert again["contents"]
    assert reason(caught) == "flow_denied"


async def test_an_upstream_that_fails_is_told_as_it_failed_and_the_hold_ends() -> None:
    desk = Desk(House(budget()))
    desk.relay.fails = UpstreamFailedError("one fell silent")

    with pytest.raises(UpstreamFailedError, match="one fell silent"):
        await desk.read()

    (record,) = desk.house.ledger.records
    assert record.status is CallStatus.UPSTREAM_FAILED
    assert not desk.house.ledger.books.live


async def test_what_a_rule_denies_to_be_asked_for_is_not_listed_either() -> None:
    denying = [
        replace(RULE, name=method, match=Match(tool=f"one__{method}"), allow=False)
        for method in ("prompts/get", "resources/read")
    ]

    async with stage(make=lambda: Stage(*denying)) as on, on.client() as client:
        prompts = (await client.list_prompts()).prompts
        resources = (await client.list_resources()).resources
        with pytest.raises(MCPError) as caught:
            await client.read_resource(URI)

    assert (prompts, resources) == ([], [])
    assert caught.value.error.data["flyball/denial"]["reason"] == "policy_denied"


@pytest.mark.requirement("protocol.offers-are-governed")
@pytest.mark.parametrize("mode", [NEW, OLD])
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_denial_reaches_the_client_as_an_error_with_its_remedy(mode: str) -> None:
    async with stage() as on, on.client(mode) as client:
        on.house.ledger.frozen.add(SessionId(f"{ADA.agent}/given"))
        note = await client.read_resource(URI)
        on.house.ledger.down.add("admit")
        with pytest.raises(MCPError) as caught:
            await client.read_resource(URI)

    assert note.meta is not None
    assert note.meta["flyball/call"]["status"] == "ok"
    denial = caught.value.error.data["flyball/denial"]
    assert denial["reason"] == "ledger_unavailable"
    assert denial["remedy"]["text"] == caught.value.error.message


@pytest.mark.requirement("access.keeps-from-whom-it-says")
async def test_an_access_rule_keeps_an_upstreams_resources_and_prompts_from_a_caller() -> None:
    desk = Desk(House(budget("calls", tool_calls=10)))
    rule = AccessRule(
        name="r",
        agent=ADA.agent,
        tools=Choice(allow=()),
        resources=Choice(deny=("one",)),
        prompts=Choice(allow=("two__*",)),
    )
    desk.house.policy = replace(desk.house.policy, access=Access(rules=(rule,)))

    listed = await desk.relaying.listed(RESOURCES, ADA, {}, NOBODY)
    with pytest.raises(UnknownOfferError):
        await desk.read()
    with pytest.raises(UnknownOfferError):
        await desk.get()
    with pytest.raises(UnknownOfferError):
        await desk.relaying.watch(URI, ADA, NOBODY)

    assert listed["resources"] == []
    assert "resources/read" not in desk.relay.asked


@pytest.mark.requirement("access.read-only")
async def test_reading_goes_on_where_nothing_may_be_changed_and_no_tool_is_given() -> None:
    desk = Desk(House(budget("calls", tool_calls=10)))
    rule = AccessRule(name="r", tools=Choice(allow=()), is_read_only=True)
    desk.house.policy = replace(desk.house.policy, access=Access(rules=(rule,)))

    assert (await desk.read())["contents"] == [{"uri": URI, "text": "a note"}]


@pytest.mark.requirement("redaction.results")
async def test_secrets_are_taken_out_of_resources_and_of_errors_about_them() -> None:
    desk = a_redacting_desk()
    desk.relay.answers["resources/read"] = {"contents": [{"uri": URI, "text": KEY}]}

    answer = await desk.read()
    desk.relay.fails = UpstreamSaidError(KEY, code=-1, words=KEY)
    with pytest.raises(UpstreamSaidError) as caught:
        await desk.read("mem://other")

    assert answer["contents"] == [{"uri": URI, "text": "[redacted:cloud_keys]"}]
    assert KEY not in f"{caught.value} {caught.value.words}"


@pytest.mark.requirement("redaction.results")
async def test_files_and_pictures_of_resources_and_prompts_stay_as_they_are() -> None:
    desk = a_redacting_desk()
    block = {"uri": URI, "blob": KEY}
    picture = {"type": "image", "mimeType": "image/png", "data": KEY}
    desk.relay.answers["resources/read"] = {"contents": [block, {"uri": URI, "text": KEY}]}
    desk.relay.answers["prompts/get"] = {
        "description": KEY,
        "messages": [
            {"role": "user", "content": picture},
            {"role": "user", "content": {"type": "text", "text": KEY}},
        ],
    }

    read, got = await desk.read(), await desk.get()

    assert read["contents"] == [block, {"uri": URI, "text": "[redacted:cloud_keys]"}]
    assert got["description"] == "[redacted:cloud_keys]"
    assert [one["content"] for one in got["messages"]] == [
        picture,
        {"type": "text", "text": "[redacted:cloud_keys]"},
    ]
    assert read["_meta"]["flyball/redacted"] == {"cloud_keys": 1}


@pytest.mark.requirement("redaction.results")
async def test_an_answer_that_may_be_given_again_is_redacted_for_whoever_gets_it() -> None:
    desk = Desk(House(budget("calls", tool_calls=10)))
    desk.relay.answers["resources/read"] = {
        "contents": [{"uri": URI, "text": KEY}],
        "ttlMs": 60_000,
        "cacheScope": "public",
    }

    whole = await desk.read()
    redacting(desk)
    again = await desk.read()

    assert desk.relay.asked == ["resources/read"]
    assert whole["contents"] == [{"uri": URI, "text": KEY}]
    assert again["contents"] == [{"uri": URI, "text": "[redacted:cloud_keys]"}]


@pytest.mark.requirement("redaction.results")
@pytest.mark.parametrize(
    "kind", [UpstreamFailedError, UpstreamLostError, UpstreamNotReachedError, UpstreamDownError]
)
async def test_an_error_that_quotes_an_answer_or_a_log_is_told_without_its_secrets(
    kind: type[UpstreamError],
) -> None:
    desk = a_redacting_desk()
    desk.relay.fails = kind(f"one is amiss: input_value='{KEY}'")

    with pytest.raises(UpstreamError) as caught:
        await desk.read()

    assert type(caught.value) is kind
    assert "one is amiss: input_value='[redacted:cloud_keys]'" in str(caught.value)
    assert KEY not in desk.house.ledger.records[0].detail
