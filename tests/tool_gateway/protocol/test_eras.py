"""Clients of either era with servers of either era: what is asked, told and held in between."""

from typing import Any

import anyio
import httpx2
import mcp_types
import pytest
from mcp.shared.exceptions import MCPError

from governor.call import CallStatus
from governor.events import Reserved, Settled
from tests.tool_gateway.protocol.everything import Everything
from tests.tool_gateway.protocol.stage import (
    NEW,
    OLD,
    SECONDS_MAX,
    SESSIONS,
    STATELESS,
    Answers,
    Stage,
    stage,
    text_of,
)
from tool_gateway.front import parking
from tool_gateway.upstreams import questions

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.requirement("protocol.any-era-with-any-era"),
    # What the newer era gives up is what clients of the older one still use.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ERAS = pytest.mark.parametrize("mode", [NEW, OLD])
SERVERS = pytest.mark.parametrize(
    "versions", [SESSIONS, STATELESS, None], ids=["sessions", "stateless", "both"]
)


@ERAS
@SERVERS
async def test_tools_resources_and_prompts_are_the_same_for_every_client(
    mode: str, versions: tuple[str, ...] | None
) -> None:
    async with stage(versions=versions) as on, on.client(mode) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        echoed = await client.call_tool("one__echo", {"text": "grüße"})
        resources = [one.uri for one in (await client.list_resources()).resources]
        templates = [
            one.uri_template for one in (await client.list_resource_templates()).resource_templates
        ]
        note = await client.read_resource("mem://note")
        page = await client.read_resource("mem://page/7")
        prompts = [one.name for one in (await client.list_prompts()).prompts]
        prompt = await client.get_prompt("one__greet", {"name": "Ada"})
        completed = await client.complete(
            mcp_types.PromptReference(name="one__greet"), {"name": "name", "value": "A"}
        )

    assert {"one__echo", "one__ask_name"} <= tools
    assert text_of(echoed) == "grüße"
    assert (resources, templates) == (["mem://note"], ["mem://page/{number}"])
    assert [one.contents[0].text for one in (note, page)] == ["a note", "page 7"]
    assert prompts == ["one__greet"]
    assert prompt.messages[0].content.text == "Greet Ada."
    assert completed.completion.values == ["Ada"]


@ERAS
@SERVERS
@pytest.mark.requirement("protocol.questions-reach-who-caused-them")
async def test_what_a_server_asks_is_answered_and_the_call_is_charged_once(
    mode: str, versions: tuple[str, ...] | None
) -> None:
    answers, everything = Answers(), Everything()

    async with (
        stage(everything, versions=versions) as on,
        on.client(mode, answers=answers) as client,
    ):
        named = await client.call_tool("one__ask_name", {})
        said = await client.call_tool("one__ask_model", {})

    assert text_of(named) == "hello Ada"
    assert text_of(said) == "model: it, says Ada"
    assert answers.asked == ["Who is there?", "model"]
    reserved = [event for event in on.house.ledger.events if isinstance(event, Reserved)]
    settled = [event for event in on.house.ledger.events if isinstance(event, Settled)]
    assert len(reserved) == len(settled)
    # A server without sessions answers each round for itself: only there a round is a call.
    is_one_call = versions == SESSIONS or (mode, versions) == (OLD, None) or mode == OLD
    assert len(settled) == (2 if is_one_call else 4)


@ERAS
@SERVERS
async def test_progress_and_logs_reach_the_client_in_order(
    mode: str, versions: tuple[str, ...] | None
) -> None:
    answers = Answers()

    async with (
        stage(versions=versions) as on,
        on.client(mode, answers=answers, log_level="warning") as client,
    ):
        if mode == OLD:
            await client.set_logging_level("warning")
        done = await client.call_tool("one__steps", {}, progress_callback=answers.note_progress)
        await client.call_tool("one__chatty", {})

    assert text_of(done) == "done"
    assert answers.progress == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
    logged = [
        one.params.data
        for one in answers.heard
        if isinstance(one, mcp_types.LoggingMessageNotification)
    ]
    assert logged == ["a warning"]


@ERAS
@SERVERS
async def test_a_client_that_goes_away_ends_the_work_at_the_server(
    mode: str, versions: tuple[str, ...] | None
) -> None:
    everything = Everything()

    async with stage(everything, versions=versions) as on, on.client(mode) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "one__hold", {})
            await everything.held.wait()
            tasks.cancel_scope.cancel()
        await everything.cancelled.wait()
        while not on.house.ledger.records:
            await anyio.sleep(0.01)

    assert [record.status for record in on.house.ledger.records] == [CallStatus.CANCELLED]


@ERAS
@SERVERS
async def test_an_error_of_the_protocol_is_the_servers_own(
    mode: str, versions: tuple[str, ...] | None
) -> None:
    async with stage(versions=versions) as on, on.client(mode) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("one__refuse", {})

    assert (raised.value.code, raised.value.message) == (-32_021, "missing capability")
    assert raised.value.data == {"requiredCapabilities": {"sampling": {}}}
    assert [record.status for record in on.house.ledger.records] == [CallStatus.UPSTREAM_FAILED]


@pytest.mark.requirement("protocol.questions-reach-who-caused-them")
async def test_a_server_learns_what_each_client_itself_can_be_asked() -> None:
    """Over one connection: the server must not ask one client what another offered."""
    async with (
        stage(versions=STATELESS) as on,
        on.client(NEW) as mute,
        on.client(NEW, answers=Answers()) as talking,
    ):
        met = [text_of(await one.call_tool("one__met", {})) for one in (mute, talking, mute)]

    assert met == [NEW, f"{NEW} elicitation sampling", NEW]


@ERAS
async def test_a_server_of_both_eras_is_spoken_to_in_the_clients_own(mode: str) -> None:
    async with stage(versions=None) as on, on.client(mode) as client:
        met = text_of(await client.call_tool("one__met", {}))

    assert met.split()[0] == (NEW if mode == NEW else SESSIONS[-1])


@ERAS
@SERVERS
async def test_a_client_that_answers_nothing_is_asked_nothing(
    mode: str, versions: tuple[str, ...] | None
) -> None:
    async with stage(versions=versions) as on, on.client(mode) as client:
        try:
            told = text_of(await client.call_tool("one__ask_name", {}))
        except MCPError as error:
            told = str(error)

    assert "hello" not in told


async def test_two_clients_at_once_are_each_asked_their_own_question() -> None:
    """Over one shared connection, whose messages carry no client's name."""
    ada, bob = Answers(name="Ada"), Answers(name="Bob")
    told: dict[str, str] = {}

    async with stage(versions=SESSIONS) as on:

        async def call(mode: str, answers: Answers, who: str) -> None:
            async with on.client(mode, answers=answers, who=who) as client:
                told[who] = text_of(await client.call_tool("one__ask_name", {}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, OLD, ada, "ada")
            tasks.start_soon(call, NEW, bob, "bob")

    assert told == {"ada": "hello Ada", "bob": "hello Bob"}


async def raw_call(on: Stage, *, who: str = "ada", **params: Any) -> dict[str, Any]:
    """Send one request as a client of the newer era does, without the SDK's own retries."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    params = {"name": "one__ask_name", "arguments": {}, **params, "_meta": meta}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": NEW,
        "mcp-method": "tools/call",
        "mcp-name": params["name"],
        "x-who": who,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        answer: dict[str, Any] = (
            await http.post(f"{on.url}/mcp", json=body, headers=headers, timeout=SECONDS_MAX)
        ).json()
    return answer


ACCEPTED = {"action": "accept", "content": {"name": "Eve"}}


@pytest.mark.requirement("protocol.parked-calls-are-bounded")
async def test_a_parked_call_is_resumed_only_by_its_agent_for_its_subject_once() -> None:
    everything = Everything()

    async with stage(everything, versions=SESSIONS) as on:
        asked = (await raw_call(on))["result"]
        retry = {
            "requestState": asked["requestState"],
            "inputResponses": dict.fromkeys(asked["inputRequests"], ACCEPTED),
        }
        held = on.house.ledger.remaining()
        others = await raw_call(on, who="bob", **retry)
        altered = await raw_call(on, **{**retry, "arguments": {"x": 1}})
        mended = await raw_call(on, **retry)
        again = await raw_call(on, **retry)

    assert asked["resultType"] == "input_required"
    assert held == 99
    assert "unknown or has expired" in others["error"]["message"]
    assert "unknown or has expired" in altered["error"]["message"]
    assert mended["result"]["content"][0]["text"] == "hello Eve"
    assert "unknown or has expired" in again["error"]["message"]
    assert everything.runs == 1
    assert [record.status for record in on.house.ledger.records] == [CallStatus.OK]


@pytest.mark.requirement("protocol.parked-calls-are-bounded")
async def test_a_call_that_may_not_be_parked_any_more_ends_and_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parking, "PARKED_PER_OWNER_MAX", 1)

    async with stage(versions=SESSIONS) as on:
        first = (await raw_call(on))["result"]
        second = await raw_call(on)
        while not (ended := list(on.house.ledger.records)):
            await anyio.sleep(0.01)
        answers = dict.fromkeys(first["inputRequests"], ACCEPTED)
        third = await raw_call(on, requestState=first["requestState"], inputResponses=answers)

    assert "wait for answers" in second["error"]["message"]
    assert third["result"]["content"][0]["text"] == "hello Eve"
    assert [record.status for record in ended] == [CallStatus.CANCELLED]


@pytest.mark.requirement("protocol.parked-calls-are-bounded")
async def test_a_call_whose_client_never_answers_is_given_up_and_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(questions, "PATIENCE_MS_MAX", 50)

    async with stage(versions=SESSIONS) as on:
        asked = await raw_call(on)
        while not on.house.ledger.records:
            await anyio.sleep(0.01)
        late = await raw_call(on, requestState=asked["result"]["requestState"])

    assert on.house.ledger.remaining() == 99
    assert "unknown or has expired" in late["error"]["message"]


async def test_the_time_of_an_answer_is_not_the_servers() -> None:
    """A person may take longer than the call's own limit."""
    async with stage(versions=SESSIONS, make=lambda: Stage(wall_ms=2_000)) as on:
        asked = (await raw_call(on))["result"]
        await anyio.sleep(2.2)
        retry = {
            "requestState": asked["requestState"],
            "inputResponses": dict.fromkeys(asked["inputRequests"], ACCEPTED),
        }
        answer = await raw_call(on, **retry)

    assert answer["result"]["content"][0]["text"] == "hello Eve"
