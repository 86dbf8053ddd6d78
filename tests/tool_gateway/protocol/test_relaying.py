"""Several upstreams as one server, and one upstream shown as it is."""

import json
from dataclasses import replace
from typing import Any

import anyio
import httpx2
import mcp_types
import pytest
from mcp.shared.exceptions import MCPError
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from governor.ids import UpstreamName
from governor.policy import Match
from tests.tool_gateway.makers import RULE
from tests.tool_gateway.protocol.everything import Everything
from tests.tool_gateway.protocol.stage import (
    NEW,
    OLD,
    SESSIONS,
    STATELESS,
    Answers,
    Stage,
    served,
    stage,
    text_of,
    upstream,
)
from tool_gateway.upstreams.spec import HttpSpec, Share

pytestmark = [
    pytest.mark.anyio,
    # What the newer era gives up is what clients of the older one still use.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
ERAS = pytest.mark.parametrize("mode", [NEW, OLD])
NOWHERE = HttpSpec(name=UpstreamName("nowhere"), url="http://127.0.0.1:9/mcp")


@pytest.mark.requirement("protocol.upstreams-are-merged")
@ERAS
async def test_what_two_upstreams_share_belongs_to_the_first_and_is_told(mode: str) -> None:
    async with (
        upstream(Everything(), name="one") as one,
        upstream(Everything(), name="two") as two,
        Stage().serving(one, two, NOWHERE) as on,
        on.client(mode) as client,
    ):
        prompts = await client.list_prompts()
        resources = await client.list_resources()
        greeting = await client.get_prompt("two__greet", {"name": "Eve"})
        page = await client.read_resource("mem://page/3")
        with pytest.raises(MCPError, match="unknown resource"):
            await client.read_resource("other://thing")
        with pytest.raises(MCPError, match="unknown prompt"):
            await client.get_prompt("three__greet")

    assert [one.name for one in prompts.prompts] == ["one__greet", "two__greet"]
    assert [one.uri for one in resources.resources] == ["mem://note"]
    assert resources.meta is not None
    assert resources.meta["flyball/collisions"] == [
        {"key": "mem://note", "kept": "one", "dropped": "two"}
    ]
    assert "nowhere" in resources.meta["flyball/upstreams"]
    assert greeting.messages[0].content.text == "Greet Eve."
    assert page.contents[0].text == "page 3"


@pytest.mark.requirement("protocol.upstreams-are-merged")
async def test_what_a_rule_forbids_is_neither_listed_nor_given() -> None:
    closed = replace(RULE, name="closed", match=Match(tool="one__*"), allow=False)

    async with stage(make=lambda: Stage(closed)) as on, on.client() as client:
        prompts = (await client.list_prompts()).prompts
        resources = (await client.list_resources()).resources
        with pytest.raises(MCPError, match="unknown resource"):
            await client.read_resource("mem://note")
        with pytest.raises(MCPError, match="unknown prompt"):
            await client.get_prompt("one__greet", {"name": "Eve"})

    assert (prompts, resources) == ([], [])


@pytest.mark.requirement("protocol.sole-upstream-is-shown-as-it-is")
@pytest.mark.parametrize("mode", ["auto", OLD])
@pytest.mark.parametrize("versions", [SESSIONS, STATELESS], ids=["sessions", "stateless"])
async def test_a_sole_upstream_without_a_prefix_is_shown_as_it_is(
    mode: str, versions: tuple[str, ...]
) -> None:
    async with stage(versions=versions, prefixed=False) as on, on.client(mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        prompt = await client.get_prompt("greet", {"name": "Ada"})
        said = (client.server_info, client.session.instructions)

    assert "echo" in tools
    assert not [name for name in tools if "__" in name]
    assert prompt.messages[0].content.text == "Greet Ada."
    assert said[0] is not None
    assert (said[0].name, said[0].version) == ("everything", "7.1")
    assert said[1] == "Ask politely."


@pytest.mark.requirement("protocol.changes-are-told")
@ERAS
@pytest.mark.parametrize("versions", [SESSIONS, STATELESS], ids=["sessions", "stateless"])
async def test_clients_hear_that_tools_changed_when_the_list_has_changed(
    mode: str, versions: tuple[str, ...]
) -> None:
    answers = Answers()

    async with stage(versions=versions) as on, on.client(mode, answers=answers) as client:
        if mode == NEW:
            async with client.listen(tools_list_changed=True):
                await client.call_tool("one__grow", {})
                await changed(answers, mcp_types.ToolListChangedNotification)
        else:
            await client.call_tool("one__grow", {})
            await changed(answers, mcp_types.ToolListChangedNotification)
        late = await client.call_tool("one__late", {})

    assert text_of(late) == "late"


async def changed(answers: Answers, kind: type[Any]) -> None:
    while not any(isinstance(message, kind) for message in answers.heard):
        await answers.told.wait()
        answers.told = anyio.Event()


@pytest.mark.requirement("protocol.changes-are-told")
async def test_a_client_hears_of_the_resource_that_it_watches() -> None:
    everything, old, new = Everything(), Answers(), Answers()

    async with (
        stage(everything, versions=STATELESS) as on,
        on.client(OLD, answers=old) as older,
        on.client(NEW, answers=new) as newer,
        newer.listen(resource_subscriptions=["mem://note"]) as listening,
    ):
        await older.session.subscribe_resource("mem://note")
        # The upstream is told to watch by then: its stream is opened anew.
        while not (told_new(old) and told_new(new)):
            await newer.call_tool("one__touch", {})
            await anyio.sleep(0.05)
        await older.session.unsubscribe_resource("mem://note")
        honoured = listening.honored.resource_subscriptions

    assert honoured == ["mem://note"]


def told_new(answers: Answers) -> bool:
    return any(
        isinstance(message, mcp_types.ResourceUpdatedNotification)
        and message.params.uri == "mem://note"
        for message in answers.heard
    )


@pytest.mark.requirement("protocol.changes-are-told")
async def test_a_session_that_ends_is_forgotten_with_what_it_watched() -> None:
    everything = Everything()

    async with stage(everything, versions=SESSIONS) as on:
        assert on.front is not None
        assert on.relaying is not None
        async with on.client(OLD) as client:
            await client.session.subscribe_resource("mem://note")
            sessions = on.front._server._sessions._sessions
            during = (len(sessions), dict(on.relaying._watches._counts))
        while sessions or len(everything.watched) < 2:
            await anyio.sleep(0.01)

    assert during == (1, {"mem://note": 1})
    assert everything.watched == ["+mem://note", "-mem://note"]


@pytest.mark.requirement("protocol.any-era-with-any-era")
async def test_a_session_of_the_older_era_gets_its_connection_to_a_newer_server() -> None:
    async with (
        stage(versions=STATELESS, share=Share.SESSION) as on,
        on.client(OLD, answers=Answers()) as client,
    ):
        named = await client.call_tool("one__ask_name", {})

    assert text_of(named) == "hello Ada"


@pytest.mark.requirement("protocol.questions-reach-who-caused-them")
async def test_each_session_can_have_a_connection_of_its_own() -> None:
    everything = Everything()

    async with (
        stage(everything, versions=SESSIONS, share=Share.SESSION) as on,
        on.client(OLD) as first,
        on.client(OLD) as second,
    ):
        await first.call_tool("one__echo", {"text": "a"})
        await first.call_tool("one__echo", {"text": "b"})
        await second.call_tool("one__echo", {"text": "c"})
        own = on.fleet.relays[UpstreamName("one")]._own
        assert own is not None
        count = len(own._own)

    assert count == 2


TASKS = "io.modelcontextprotocol/tasks"


class Foreign:
    """A server of the newer era that says more than the protocol knows."""

    def __init__(self, *, ttl_ms: int = 0) -> None:
        self.ttl_ms = ttl_ms
        self.asked: list[str] = []
        self.named: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await whole_body(receive)
        extra = {"resultType": "complete", "x-result": {"a": None}, "_meta": {"org.example/m": 1}}
        results: dict[str, dict[str, Any]] = {
            "server/discover": {
                "supportedVersions": [NEW],
                "capabilities": {"tools": {}, "prompts": {}, "extensions": {TASKS: {}}},
            },
            "tools/list": {
                "tools": [
                    {"name": "t", "inputSchema": {"type": "object"}, "x-tool": [1]},
                    {"name": "task", "inputSchema": {"type": "object"}},
                ]
            },
            "tools/call": {"content": [{"type": "text", "text": "ok", "x-block": 2}]},
            "prompts/list": {"prompts": [{"name": "p", "x-prompt": 3}]},
            "tasks/get": {"taskId": "t-1", "status": "working"},
        }
        if body["method"] == "tools/call" and "task" in body["params"]["name"]:
            results["tools/call"] = {"taskId": "t-1", "status": "working"}
            extra["resultType"] = "task"
        self.asked.append(body["method"])
        self.named.append(dict(scope["headers"]).get(b"mcp-name", b"").decode())
        result = {"ttlMs": self.ttl_ms, "cacheScope": "private", **results[body["method"]], **extra}
        answer = {"jsonrpc": "2.0", "id": body["id"], "result": result}
        await JSONResponse(answer)(scope, receive, send)


async def whole_body(receive: Receive) -> dict[str, Any]:
    body = b""
    while True:
        message: Message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            found: dict[str, Any] = json.loads(body)
            return found


async def raw(url: str, method: str, **params: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": NEW,
        "mcp-method": method,
        **({"mcp-name": params["name"]} if "name" in params else {}),
        **({"mcp-name": params["taskId"]} if "taskId" in params else {}),
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        answer = (await http.post(f"{url}/mcp", json=body, headers=headers)).json()
    found: dict[str, Any] = answer["result"]
    return found


@pytest.mark.requirement("protocol.unknown-members-are-kept")
async def test_what_the_protocol_does_not_know_is_kept() -> None:
    foreign: ASGIApp = Foreign()

    async with served(foreign) as url:
        spec = HttpSpec(name=UpstreamName("one"), url=f"{url}/mcp", prefixed=False)
        async with Stage().serving(spec) as on:
            tools = await raw(on.url, "tools/list")
            called = await raw(on.url, "tools/call", name="t", arguments={})
            prompts = await raw(on.url, "prompts/list")

    assert tools["tools"][0]["x-tool"] == [1]
    assert called["content"][0] == {"type": "text", "text": "ok", "x-block": 2}
    assert called["x-result"] == {"a": None}
    assert called["_meta"]["org.example/m"] == 1
    assert prompts["prompts"] == [{"name": "p", "x-prompt": 3}]
    assert prompts["x-result"] == {"a": None}


@pytest.mark.requirement("protocol.tasks-are-relayed")
async def test_a_task_is_asked_about_at_the_server_that_runs_it() -> None:
    foreign, other = Foreign(), Foreign()

    async with served(other) as elsewhere, served(foreign) as url:
        specs = [
            HttpSpec(name=UpstreamName("two"), url=f"{elsewhere}/mcp"),
            HttpSpec(name=UpstreamName("one"), url=f"{url}/mcp"),
        ]
        async with Stage().serving(*specs) as on:
            begun = await raw(on.url, "tools/call", name="one__task", arguments={})
            state = await raw(on.url, "tasks/get", taskId="t-1")
            discovered = await raw(on.url, "server/discover")

    assert (begun["resultType"], begun["taskId"]) == ("task", "t-1")
    assert "content" not in begun
    assert state["status"] == "working"
    assert "tasks/get" in foreign.asked
    assert "tasks/get" not in other.asked
    assert "t-1" in foreign.named
    assert TASKS in discovered["capabilities"]["extensions"]


@pytest.mark.requirement("protocol.answers-are-kept-as-they-allow")
@pytest.mark.parametrize(("ttl_ms", "times"), [(0, 2), (60_000, 1)])
async def test_a_list_is_asked_for_again_when_its_time_is_over(ttl_ms: int, times: int) -> None:
    foreign = Foreign(ttl_ms=ttl_ms)

    async with served(foreign) as url:
        spec = HttpSpec(name=UpstreamName("one"), url=f"{url}/mcp", prefixed=False)
        async with Stage().serving(spec) as on:
            answers = [await raw(on.url, "prompts/list") for _ in range(2)]

    # It was listed once more when it was connected, to be held against what was approved.
    assert foreign.asked.count("prompts/list") == times + 1
    assert [answer["prompts"][0]["name"] for answer in answers] == ["p", "p"]
