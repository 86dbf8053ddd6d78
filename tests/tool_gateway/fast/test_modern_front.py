"""The short way in beside the SDK's front: whatever one answers, the other answers too."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from governor.call import CallStatus
from governor.ids import PrincipalId, SessionId, TenantId, ToolName
from runtime.failures import problem_for
from runtime.http_guard import BodyLimit
from tests.governor.makers import budget
from tests.tool_gateway.finding_makers import a_finder
from tests.tool_gateway.makers import ENTRY, Behaviour, House, answer_ok
from tool_gateway.changes import Changes
from tool_gateway.errors import UpstreamSaidError
from tool_gateway.front import modern, reply
from tool_gateway.front.mcp_http import CALLER_KEY, McpFront
from tool_gateway.front.modern import ModernFront
from tool_gateway.gateway import Gateway, Listed
from tool_gateway.identity import Caller
from tool_gateway.relaying import Relaying
from tool_gateway.results import Outcome, text_result
from tool_gateway.sessions import ImplicitSessions
from tool_gateway.stock import Stock

pytestmark = pytest.mark.anyio

ADA = Caller(tenant=TenantId("acme"), agent=PrincipalId("ada"), token_id="tok_ada")
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
READ = replace(
    ENTRY,
    exposed=ToolName("files__read"),
    definition={
        "name": "read",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "region": {"type": "string", "x-mcp-header": "Region"},
            },
        },
    },
)
PLAIN = replace(READ, exposed=ToolName("files__plain"), definition={**ENTRY.definition})


class Counted(McpFront):
    """The SDK's front, which notes what it was handed."""

    passed_on: list[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.passed_on.append(scope["method"])
        await super().__call__(scope, receive, send)


def a_relaying(gateway: Gateway) -> Relaying:
    """Return what relays for no upstream at all."""
    return Relaying(
        relays={},
        calls=gateway.offer_calls(),
        policy=lambda: None,
        changes=Changes(),
        elapsed_ms=lambda: 0,
    )


@dataclass
class Fronts:
    """Both fronts, each over a house of its own, so that both see the same first call."""

    behave: Behaviour = answer_ok
    calls: int = 10
    seconds_max: float = 20
    passed_on: list[str] = field(default_factory=list)
    houses: list[House] = field(default_factory=list)

    def gateway(self) -> Gateway:
        house = House(budget("calls", tool_calls=self.calls), behave=self.behave)
        self.houses.append(house)
        stock = Stock(())
        stock.replace([READ, PLAIN])
        return Gateway(
            stock=stock,
            pipeline=house.pipeline,
            books=house.books,
            backends={ENTRY.backend: house.backend},
            policy=lambda: house.policy,
            sessions=ImplicitSessions(clock=house.clock, idle_ms=1_000),
            session_naming=lambda agent, name: SessionId(f"{agent}/{name}"),
            clock=house.clock,
            finder=a_finder(stock=stock, house=house),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[tuple[ModernFront, McpFront]]:
        def code_of(error: Exception) -> int:
            return problem_for(error).code

        ours, theirs = self.gateway(), self.gateway()
        terms = {"version": "1", "body_bytes_max": 100_000, "code_of": code_of}
        whole = Counted(ours, a_relaying(ours), **terms)
        whole.passed_on = self.passed_on
        short = ModernFront(ours, whole=whole, version="1", code_of=code_of)
        beside = McpFront(theirs, a_relaying(theirs), **terms)
        with anyio.fail_after(self.seconds_max):
            async with short.running(), beside.running():
                yield short, beside


def _called_by_ada(front: Any) -> Any:
    """Return `front` as it stands behind the house's own checks: with a caller, a whole body."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope[CALLER_KEY] = ADA
        await front(scope, receive, send)

    return BodyLimit(app, bytes_max=100_000)


async def posted(
    front: Any, headers: dict[str, str], body: bytes, method: str = "POST"
) -> httpx.Response:
    transport = httpx.ASGITransport(_called_by_ada(front))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.request(method, "/mcp", headers=headers, content=body)


def a_call(tool: str = "files__read", **arguments: object) -> tuple[dict[str, str], dict[str, Any]]:
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": tool,
    }
    params = {"name": tool, "arguments": arguments, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    return headers, deepcopy(body)


def a_list() -> tuple[dict[str, str], dict[str, Any]]:
    headers, body = a_call()
    del headers["mcp-name"]
    headers["mcp-method"] = body["method"] = "tools/list"
    body["params"] = {"_meta": deepcopy(META)}
    return headers, body


@dataclass
class Asked:
    """A request that a test changes before it is sent."""

    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def params(self) -> dict[str, Any]:
        return self.body["params"]

    @property
    def meta(self) -> dict[str, Any]:
        return self.params["_meta"]


Change = Callable[["Asked"], object]
IN_ORDER: dict[str, Change] = {
    "as it is": lambda _: None,
    "an id that is text": lambda r: r.body.update(id="seven"),
    "no arguments": lambda r: r.params.pop("arguments"),
    "arguments null": lambda r: r.params.update(arguments=None),
    "a client without a name": lambda r: r.meta.pop("io.modelcontextprotocol/clientInfo"),
    "any type accepted": lambda r: r.headers.update(accept="*/*"),
    "a parameter in its header": lambda r: (
        r.headers.update({"mcp-param-region": "north"}),
        r.params["arguments"].update(region="north"),
    ),
    "a name in base64": lambda r: r.headers.update({"mcp-name": "=?base64?ZmlsZXNfX3JlYWQ=?="}),
    "arguments that do not fit": lambda r: r.params["arguments"].update(path=5),
    "a session": lambda r: r.headers.update({"flyball-session": "mine"}),
    "an empty session": lambda r: r.headers.update({"flyball-session": "\t"}),
    "more members": lambda r: r.body.update(more=1),
}
AMISS: dict[str, Change] = {
    "another method in the body": lambda r: r.body.update(method="tools/list"),
    "another name in the body": lambda r: r.params.update(name="files__plain"),
    "another version in the body": lambda r: r.meta.update(
        {"io.modelcontextprotocol/protocolVersion": "2025-11-25"}
    ),
    "no name in the headers": lambda r: r.headers.pop("mcp-name"),
    "no version in the body": lambda r: r.meta.pop("io.modelcontextprotocol/protocolVersion"),
    "no capabilities": lambda r: r.meta.pop("io.modelcontextprotocol/clientCapabilities"),
    "capabilities that are none": lambda r: r.meta.update(
        {"io.modelcontextprotocol/clientCapabilities": {"roots": 5}}
    ),
    "a client that is none": lambda r: r.meta.update(
        {"io.modelcontextprotocol/clientInfo": {"name": "x"}}
    ),
    "a parameter that its header denies": lambda r: (
        r.headers.update({"mcp-param-region": "south"}),
        r.params["arguments"].update(region="north"),
    ),
    "a parameter without its header": lambda r: r.params["arguments"].update(region="north"),
    "a header without its parameter": lambda r: r.headers.update({"mcp-param-region": "north"}),
    "an unknown tool": lambda r: (
        r.headers.update({"mcp-name": "files__no"}),
        r.params.update(name="files__no"),
    ),
    "an unknown method": lambda r: (
        r.headers.update({"mcp-method": "x/y"}),
        r.body.update(method="x/y"),
    ),
    "no meta": lambda r: r.params.pop("_meta"),
    "no params": lambda r: r.body.pop("params"),
    "an id that is a fraction": lambda r: r.body.update(id=1.5),
    "an id that is true": lambda r: r.body.update(id=True),
    "no id": lambda r: r.body.pop("id"),
    "another envelope": lambda r: r.body.update(jsonrpc="1.0"),
    "only JSON accepted": lambda r: r.headers.update(accept="application/json"),
    "another content": lambda r: r.headers.update({"content-type": "text/plain"}),
    "an unknown version": lambda r: r.headers.update({"mcp-protocol-version": "2027-01-01"}),
    "arguments that are a list": lambda r: r.params.update(arguments=[1]),
    "a progress token that is none": lambda r: r.meta.update(progressToken=[1]),
}


MORE_WANTED: dict[str, Change] = {
    "a progress token": lambda r: r.meta.update(progressToken=1),
    "a client that hears logs": lambda r: r.meta.update(
        {"io.modelcontextprotocol/logLevel": "info"}
    ),
    "a client with extensions": lambda r: r.meta.update(
        {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"a/b": {}}}}
    ),
}
ELICITS = {"elicitation": {"form": {}}}


def read(answer: httpx.Response) -> object:
    is_json = answer.headers.get("content-type") == "application/json"
    return answer.json() if is_json else answer.content


async def compared(
    change: Change, make: Any = a_call, behave: Behaviour = answer_ok
) -> tuple[Fronts, httpx.Response]:
    fronts = Fronts(behave=behave)
    asked = Asked(*make())
    change(asked)
    content = json.dumps(asked.body).encode()
    async with fronts.running() as (short, beside):
        ours = await posted(short, asked.headers, content)
        theirs = await posted(beside, asked.headers, content)

    assert ours.status_code == theirs.status_code
    assert ours.headers.get("content-type") == theirs.headers.get("content-type")
    if theirs.content:
        assert read(ours) == read(theirs)
    return fronts, ours


@pytest.mark.requirement("front.short-way-same-answer")
@pytest.mark.parametrize("change", IN_ORDER.values(), ids=IN_ORDER)
async def test_a_call_in_order_is_answered_at_once_and_as_the_sdk_would(change: Change) -> None:
    fronts, _ = await compared(change)

    assert fronts.passed_on == []


@pytest.mark.requirement("front.short-way-same-answer")
@pytest.mark.parametrize("change", AMISS.values(), ids=AMISS)
async def test_a_call_that_is_amiss_is_left_to_the_sdk(change: Change) -> None:
    fronts, _ = await compared(change)

    assert fronts.passed_on == ["POST"]
    assert [house.backend.ran for house in fronts.houses] == [[], []]


@pytest.mark.requirement("front.short-way-same-answer")
@pytest.mark.parametrize("change", MORE_WANTED.values(), ids=MORE_WANTED)
async def test_a_client_that_wants_more_than_an_answer_is_left_to_the_sdk(change: Change) -> None:
    fronts, _ = await compared(change)

    assert fronts.passed_on == ["POST"]


@pytest.mark.requirement("front.short-way-same-answer")
@pytest.mark.parametrize("can_ask", [True, False])
async def test_a_client_that_can_be_asked_is_left_to_the_sdk_where_somebody_may_ask(
    monkeypatch: pytest.MonkeyPatch, *, can_ask: bool
) -> None:
    def elicit(asked: Asked) -> None:
        asked.meta["io.modelcontextprotocol/clientCapabilities"] = ELICITS

    monkeypatch.setattr(Gateway, "can_ask", lambda *_: can_ask)
    fronts, _ = await compared(elicit)

    assert fronts.passed_on == (["POST"] if can_ask else [])


@pytest.mark.requirement("front.short-way-same-answer")
@pytest.mark.parametrize("code", [-32_002, -31_999])
async def test_an_upstreams_own_error_is_told_as_the_sdk_would(code: int) -> None:
    async def fail() -> Outcome:
        raise UpstreamSaidError("upstream files: no", code=code, words="no", data={"uri": "a:b"})

    fronts, answer = await compared(lambda _: None, behave=fail)

    assert fronts.passed_on == []
    assert answer.json()["error"]["data"] == {"uri": "a:b"}


@pytest.mark.requirement("front.short-way-same-answer")
async def test_the_list_of_tools_is_the_one_that_the_sdk_would_give() -> None:
    fronts, answer = await compared(lambda _: None, a_list)

    assert fronts.passed_on == []
    names = [tool["name"] for tool in answer.json()["result"]["tools"]]
    assert names == ["files__plain", "files__read"]


async def test_a_list_without_room_for_all_is_the_one_that_the_sdk_would_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def only_one(gateway: Gateway, caller: Caller, _: object) -> tuple[Listed, ...]:
        return gateway.tools_for(caller)[:1]

    monkeypatch.setattr(Gateway, "shows_all", lambda *_: False)
    monkeypatch.setattr(Gateway, "listed_for", only_one)
    fronts, answer = await compared(lambda _: None, a_list)

    assert fronts.passed_on == []
    assert len(answer.json()["result"]["tools"]) == 1


async def test_a_list_with_a_cursor_is_left_to_the_sdk() -> None:
    fronts, _ = await compared(lambda r: r.params.update(cursor="x"), a_list)

    assert fronts.passed_on == ["POST"]


async def test_a_list_is_made_anew_when_the_tools_change() -> None:
    fronts = Fronts()
    headers, body = a_list()
    async with fronts.running() as (short, _):
        before = await posted(short, headers, json.dumps(body).encode())
        short._gateway._stock.replace([PLAIN])
        after = await posted(short, headers, json.dumps(body).encode())

    assert len(before.json()["result"]["tools"]) == 2
    assert [tool["name"] for tool in after.json()["result"]["tools"]] == ["files__plain"]


@pytest.mark.parametrize(
    "body", [b'{"jsonrpc": "2.0"', b"[" * 5_000, b"\xff", b"[]", b'{"id": NaN}', b""]
)
async def test_a_body_that_cannot_be_read_is_left_to_the_sdk(body: bytes) -> None:
    fronts = Fronts()
    headers, _ = a_call()
    async with fronts.running() as (short, beside):
        ours = await posted(short, headers, body)
        theirs = await posted(beside, headers, body)

    assert (ours.status_code, ours.content) == (theirs.status_code, theirs.content)
    assert fronts.passed_on == ["POST"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_other_http_methods_are_left_to_the_sdk(method: str) -> None:
    fronts = Fronts()
    headers, _ = a_call()
    async with fronts.running() as (short, _):
        answer = await posted(short, headers, b"", method=method)

    assert answer.status_code == 405
    assert fronts.passed_on == [method]


async def test_a_header_that_comes_twice_is_left_to_the_sdk() -> None:
    fronts = Fronts()
    headers, body = a_call()
    async with fronts.running() as (short, _):
        transport = httpx.ASGITransport(_called_by_ada(short))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            twice = [*headers.items(), ("Mcp-Name", "files__plain")]
            answer = await client.post("/mcp", headers=twice, json=body)

    assert answer.json()["error"]["code"] == -32020
    assert fronts.passed_on == ["POST"]


async def test_a_fault_of_our_own_is_told_without_its_words() -> None:
    async def fall_over() -> Outcome:
        raise ZeroDivisionError("secret words")

    fronts = Fronts(behave=fall_over)
    headers, body = a_call()
    async with fronts.running() as (short, _):
        answer = await posted(short, headers, json.dumps(body).encode())

    assert answer.json()["error"]["code"] == -32603
    assert b"secret" not in answer.content


@dataclass
class Client:
    """A raw ASGI client that can go away, and hears every message."""

    request: tuple[dict[str, str], dict[str, Any]]
    sent: list[Message] = field(default_factory=list)
    gone: anyio.Event = field(default_factory=anyio.Event)
    heard: anyio.Event = field(default_factory=anyio.Event)
    _is_read: bool = False

    async def receive(self) -> Message:
        if not self._is_read:
            self._is_read = True
            body = json.dumps(self.request[1]).encode()
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.heard.set()

    async def call(self, front: ModernFront) -> None:
        headers = [(name.encode(), value.encode()) for name, value in self.request[0].items()]
        scope = {"type": "http", "method": "POST", "headers": headers, CALLER_KEY: ADA}
        await front(scope, self.receive, self.send)


@pytest.mark.requirement("front.gone-client-cancels")
async def test_a_client_that_goes_away_takes_its_call_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(modern, "ATTEND_AFTER_SECONDS", 0.001)
    fronts = Fronts(behave=anyio.sleep_forever)
    client = Client(a_call())
    async with fronts.running() as (short, _), anyio.create_task_group() as tasks:
        tasks.start_soon(client.call, short)
        await fronts.houses[0].backend.started.wait()
        client.gone.set()

    assert fronts.houses[0].record.status is CallStatus.CANCELLED
    assert client.sent == []


@pytest.mark.requirement("front.gone-client-cancels")
async def test_a_call_that_takes_long_keeps_its_connection_awake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(modern, "ATTEND_AFTER_SECONDS", 0.001)
    monkeypatch.setattr(modern, "QUIET_SECONDS_MAX", 0.001)
    let_go = anyio.Event()

    async def slow() -> Outcome:
        await let_go.wait()
        return Outcome(result=text_result("at last"))

    client = Client(a_call())
    fronts = Fronts(behave=slow)
    async with fronts.running() as (short, _), anyio.create_task_group() as tasks:
        tasks.start_soon(client.call, short)
        await client.heard.wait()
        let_go.set()

    start, *parts = client.sent
    assert dict(start["headers"])[b"content-type"] == b"text/event-stream"
    assert parts[0]["body"] == b": ping\r\n\r\n"
    assert not parts[-1].get("more_body")
    event = parts[-1]["body"].decode()
    assert event.startswith("event: message\r\ndata: ")
    assert "at last" in json.loads(event.split("data: ", 1)[1])["result"]["content"][0]["text"]


async def test_nothing_is_sent_to_stay_awake_once_the_answer_is_there() -> None:
    client = Client(a_call())
    answer = reply.Reply(client.send)

    await answer.end(b"{}")
    await answer.stay_awake()

    assert [message["type"] for message in client.sent] == [
        "http.response.start",
        "http.response.body",
    ]
