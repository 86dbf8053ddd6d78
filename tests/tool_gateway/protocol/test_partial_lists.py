"""Lists while an upstream is not there: what is up is shown, and the rest is said beside it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
import mcp_types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from starlette.types import Receive, Scope, Send

from governor.breaker import BreakerTerms, Permit, Sign
from governor.ids import UpstreamName
from governor.manifest import Pin
from governor.policy import Match
from tests.tool_gateway.makers import RULE
from tests.tool_gateway.protocol.everything import Everything
from tests.tool_gateway.protocol.stage import (
    ADA,
    NEW,
    OLD,
    Answers,
    Stage,
    served,
    stage,
    text_of,
    upstream,
)
from tests.tool_gateway.test_pins import FakeManifestStore
from tool_gateway.front.lists import ToolLists
from tool_gateway.guards.pins import Pins
from tool_gateway.identity import read_context
from tool_gateway.ports import ManifestKnown
from tool_gateway.results import DENIAL_META
from tool_gateway.upstreams.spec import Care, HttpSpec
from tool_gateway.upstreams.standing import UpstreamState

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
ERAS = pytest.mark.parametrize("mode", [NEW, OLD])
NOWHERE = HttpSpec(name=UpstreamName("nowhere"), url="http://127.0.0.1:9/mcp")
HIDDEN = replace(NOWHERE, care=Care(hidden_when_down=True))
TOOL = {"name": "fly", "inputSchema": {"type": "object"}}


def report_in(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    report: dict[str, Any] = (meta or {}).get("flyball/upstreams", {})
    return report


def states_in(meta: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: line["state"] for name, line in report_in(meta).items()}


def pinned() -> Pins:
    """Return the pins of a sidecar that has seen the upstream in an earlier life."""
    store = FakeManifestStore()
    store.kept[NOWHERE.name] = ManifestKnown(
        revision=1, tools={"fly": TOOL}, approved_at_ms=1, approved_by="eve"
    )
    return Pins({NOWHERE.name: Pin.FIRST_USE, UpstreamName("one"): Pin.OFF}, store=store)


@pytest.mark.requirement("upstream.lists-are-partial")
@ERAS
async def test_a_list_shows_what_is_up_and_says_what_is_not(mode: str) -> None:
    async with (
        upstream(Everything()) as one,
        Stage().serving(one, NOWHERE) as on,
        on.client(mode) as client,
    ):
        tools = await client.list_tools()
        others = [
            await client.list_resources(),
            await client.list_resource_templates(),
            await client.list_prompts(),
        ]

    for listed in (tools, *others):
        assert states_in(listed.meta) == {"one": "ok", "nowhere": "down"}
    assert report_in(tools.meta)["one"] == {"state": "ok", "listed": len(tools.tools)}
    assert report_in(tools.meta)["nowhere"]["listed"] == 0
    assert "connect" in report_in(tools.meta)["nowhere"]["why"]
    assert report_in(others[0].meta)["one"]["listed"] == len(others[0].resources)


@pytest.mark.requirement("upstream.lists-are-partial")
@ERAS
async def test_nothing_stands_beside_the_lists_of_a_sole_upstream_that_is_well(mode: str) -> None:
    async with stage(prefixed=False) as on, on.client(mode) as client:
        listed = [await client.list_tools(), await client.list_resources()]

    assert [report_in(one.meta) for one in listed] == [{}, {}]


@pytest.mark.requirement("upstream.lists-are-partial")
async def test_a_sole_upstream_that_is_gone_is_said_to_be() -> None:
    async with Stage().serving(replace(NOWHERE, prefixed=False)) as on, on.client() as client:
        listed = await client.list_tools()

    assert states_in(listed.meta) == {"nowhere": "down"}


@pytest.mark.requirement("upstream.lists-are-partial")
async def test_nobody_is_told_of_upstreams_that_are_not_theirs() -> None:
    forbidden = replace(RULE, name="none", match=Match(tool="nowhere__*"), allow=False)

    async with (
        upstream(Everything()) as one,
        Stage(forbidden).serving(one, NOWHERE) as on,
        on.client() as client,
    ):
        listed = [await client.list_tools(), await client.list_resources()]
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("nowhere__fly", {})

    assert [states_in(one.meta) for one in listed] == [{"one": "ok"}] * 2


@pytest.mark.requirement("upstream.lists-are-partial")
async def test_the_short_way_says_the_same_and_forgets_nothing_that_changed() -> None:
    terms = BreakerTerms(calls_min=1)
    async with (
        upstream(Everything()) as one,
        Stage(breaker=terms).serving(one, NOWHERE) as on,
        on.client() as client,
    ):
        assert on.gateway is not None
        lists = ToolLists(on.gateway, stamp={})

        async def short() -> dict[str, Any]:
            return report_in(json.loads(await lists.listed(ADA, read_context({}, {})))["_meta"])

        before, whole = await short(), report_in((await client.list_tools()).meta)
        breaker = on.house.breakers.of("one")
        assert breaker is not None
        permit = breaker.let_through()
        assert isinstance(permit, Permit)
        breaker.ended(permit, Sign.ILL)
        after = await short()
        resources = await client.list_resources()

    assert before == whole
    assert {name: line["state"] for name, line in after.items()} == {
        "one": "failing",
        "nowhere": "down",
    }
    # It is not asked either, and keeps nobody waiting.
    assert resources.resources == []
    assert report_in(resources.meta)["one"]["why"] == "it failed too often lately"


@pytest.mark.requirement("upstream.absence-is-said")
@ERAS
async def test_a_call_of_a_tool_that_was_never_seen_says_that_its_upstream_is_down(
    mode: str,
) -> None:
    stage = Stage()
    async with stage.serving(NOWHERE) as on, on.client(mode) as client:
        answer = await client.call_tool("nowhere__fly", {"to": "the moon"})
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("elsewhere__fly", {})
        with pytest.raises(MCPError, match="not there at the moment: nowhere"):
            await client.read_resource("mem://note")

    assert answer.is_error
    assert "upstream nowhere is down" in text_of(answer)
    assert answer.meta is not None
    assert answer.meta[DENIAL_META]["reason"] == "upstream_unavailable"
    assert answer.meta[DENIAL_META]["retry_after_ms"] > 0
    # It stands among the calls, with no word of arguments that nobody can judge.
    (record,) = stage.house.ledger.records
    assert (record.name, record.backend, record.denial) == (
        "nowhere__fly",
        "nowhere",
        "upstream_unavailable",
    )
    assert record.arguments.startswith("sha256:")


@pytest.mark.requirement("upstream.start-is-waited-for")
@pytest.mark.parametrize("pin", [Pin.OFF, Pin.FIRST_USE])
async def test_the_first_call_waits_for_an_upstream_that_is_only_just_starting(
    monkeypatch: pytest.MonkeyPatch, pin: Pin
) -> None:
    monkeypatch.setattr("tool_gateway.upstreams.fleet.CONNECT_SECONDS_MAX", 0.01)
    everything, is_up = Everything(), anyio.Event()
    app = everything.app()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await is_up.wait()
        await app(scope, receive, send)

    said: list[str] = []
    pins = Pins({UpstreamName("one"): pin}, store=FakeManifestStore())
    async with everything.server.session_manager.run(), served(slow) as url:
        spec = HttpSpec(name=UpstreamName("one"), url=f"{url}/mcp")
        stage = Stage(pins=pins)
        async with stage.serving(spec) as on, on.client() as client:
            (connection,) = on.fleet.connections

            async def call() -> None:
                said.append(text_of(await client.call_tool("one__echo", {"text": "in time"})))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pins.pin_for_ever)
                tasks.start_soon(call)
                while not connection.standing.is_awaited:
                    await anyio.sleep(0.01)
                is_up.set()
                while not said:
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()

    assert said == ["in time"]


async def test_a_name_that_no_tool_can_have_is_neither_waited_for_nor_recorded() -> None:
    stage = Stage()
    async with stage.serving(NOWHERE) as on, on.client() as client:
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("nowhere__" + "fly" * 30, {})

    assert stage.house.ledger.records == []


@pytest.mark.requirement("upstream.absence-is-said")
async def test_what_was_approved_in_an_earlier_life_is_listed_and_a_call_says_that_it_is_down() -> (
    None
):
    pins = pinned()
    await pins.refresh()

    async with Stage(pins=pins).serving(NOWHERE) as on, on.client() as client:
        listed = await client.list_tools()
        answer = await client.call_tool("nowhere__fly", {})

    assert [tool.name for tool in listed.tools] == ["nowhere__fly"]
    assert report_in(listed.meta)["nowhere"]["state"] == "down"
    assert answer.is_error
    assert "nowhere is down" in text_of(answer)


async def test_a_tool_that_is_hidden_while_its_upstream_is_down_is_not_listed() -> None:
    pins = pinned()
    await pins.refresh()

    async with Stage(pins=pins).serving(HIDDEN) as on, on.client() as client:
        listed = await client.list_tools()
        answer = await client.call_tool("nowhere__fly", {})

    assert listed.tools == []
    assert "upstream nowhere is down" in text_of(answer)


async def test_clients_are_told_when_tools_are_hidden() -> None:
    answers = Answers()
    async with (
        upstream(Everything()) as one,
        Stage().serving(replace(one, care=Care(hidden_when_down=True))) as on,
        on.client(OLD, answers=answers) as client,
    ):
        before = await client.list_tools()
        [connection] = on.fleet.connections
        connection.standing.down("gone", soon_back=False)
        connection._on_tools()
        after = await told_of_tools(client, answers)

    assert before.tools
    assert connection.state is UpstreamState.DOWN
    assert after.tools == []


async def told_of_tools(client: Client, answers: Answers) -> mcp_types.ListToolsResult:
    """Return the list of tools once the client was told that it has changed."""
    with anyio.fail_after(60):
        while not any(
            isinstance(one, mcp_types.ToolListChangedNotification) for one in answers.heard
        ):
            await answers.told.wait()
            answers.told = anyio.Event()
    return await client.list_tools()


async def test_tools_that_wait_for_approval_are_counted() -> None:
    pins = Pins({UpstreamName("one"): Pin.APPROVE}, store=FakeManifestStore())

    async with (
        upstream(Everything()) as one,
        Stage(pins=pins).serving(one) as on,
        on.client() as client,
    ):
        report = report_in((await client.list_tools()).meta)

    assert (report["one"]["state"], report["one"]["listed"]) == ("quarantined", 0)
    assert "approval" in report["one"]["why"]
