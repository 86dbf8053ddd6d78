"""The fleet against real servers: processes over stdio, and HTTP on loopback."""

import gzip
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.lowlevel
import mcp_types
import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from governor.call import CallStatus, ToolCall
from governor.ids import ToolName, UpstreamName
from governor.usage import OF_PROBES, OF_THE_MACHINE
from tests.tool_gateway.makers import LIMITS, a_call
from tests.tool_gateway.placement import Unfenced
from tests.tool_gateway.protocol.stage import served
from tool_gateway.egress.reach import NAMED
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.ports import Meter
from tool_gateway.results import Outcome
from tool_gateway.stock import Stock
from tool_gateway.translate import result_of
from tool_gateway.upstreams import connection
from tool_gateway.upstreams.fleet import UpstreamFleet
from tool_gateway.upstreams.http import contained_client
from tool_gateway.upstreams.spec import HttpSpec, StdioSpec, UpstreamSpec
from tool_gateway.upstreams.standing import UpstreamState

pytestmark = pytest.mark.anyio

SERVER = (sys.executable, str(Path(__file__).parent / "servers" / "stdio.py"))
LOCAL = UpstreamName("local")
REMOTE = UpstreamName("remote")
# Real processes on a busy machine; nothing here waits that long when all is well.
SECONDS_MAX = 60


@pytest.fixture(autouse=True)
def restart_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PAUSE_SECONDS_MIN", 0.01)
    monkeypatch.setattr(connection, "READY_SECONDS_MAX", float(SECONDS_MAX))


@dataclass
class Placement(Unfenced):
    """Starts servers as they are and notes when their trees are to be ended."""

    ended: list[str] = field(default_factory=list)

    def server_started(self, name: str, pid: int) -> None:
        pass

    async def server_processes(self, name: str) -> tuple[int, ...]:
        return ()

    async def end_server(self, name: str) -> None:
        self.ended.append(name)


class Upstreams:
    """A connected fleet with the shortest way to call one of its tools."""

    def __init__(self, *specs: UpstreamSpec) -> None:
        self.placement = Placement()
        self.stock = Stock(())
        self.fleet = UpstreamFleet(specs, placement=self.placement, stock=self.stock)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator["Upstreams"]:
        with anyio.fail_after(SECONDS_MAX):
            async with self.fleet.connected():
                yield self

    async def call(
        self, tool: str, *, at: UpstreamName = LOCAL, wall_ms: int = 60_000, **arguments: object
    ) -> Outcome:
        call: ToolCall = replace(a_call(**arguments), tool=ToolName(f"{at}__{tool}"))
        return await self.fleet.backends[at].run(call, replace(LIMITS, wall_ms=wall_ms), Meter())


def stdio(*extra: str, name: UpstreamName = LOCAL) -> StdioSpec:
    return StdioSpec(name=name, command=(*SERVER, *extra))


async def test_the_tools_of_an_upstream_are_listed_and_can_be_called() -> None:
    async with Upstreams(stdio()).connected() as upstreams:
        listed = {entry.exposed for entry in upstreams.stock.catalog}
        good = await upstreams.call("echo", text="grüße")
        bad = await upstreams.call("complain")

    assert {"local__echo", "local__die", "local__wait", "local__big"} <= listed
    assert (good.result.sole_text, good.status) == ("grüße", CallStatus.OK)
    assert bad.status is CallStatus.TOOL_ERROR
    assert "no such file" in (bad.result.sole_text or "")
    assert upstreams.placement.ended == [LOCAL]


async def test_a_large_answer_comes_through_whole() -> None:
    async with Upstreams(stdio()).connected() as upstreams:
        outcome = await upstreams.call("big", size=3_000_000)

    assert outcome.result.sole_text == "x" * 3_000_000


@pytest.mark.requirement("input.upstream-dies")
@pytest.mark.requirement("upstream.comes-back")
async def test_a_server_that_dies_in_a_call_fails_it_and_is_started_again() -> None:
    async with Upstreams(stdio()).connected() as upstreams:
        before = await upstreams.call("pid")
        with pytest.raises(UpstreamFailedError):
            await upstreams.call("die")
        after = await eventually(upstreams, "pid")

    assert before.result.sole_text != after.result.sole_text
    assert upstreams.placement.ended == [LOCAL, LOCAL]


async def eventually(upstreams: Upstreams, tool: str) -> Outcome:
    while True:
        try:
            return await upstreams.call(tool)
        except UpstreamFailedError:
            await anyio.lowlevel.checkpoint()


@pytest.mark.requirement("upstream.comes-back")
async def test_the_call_after_a_death_goes_to_the_new_server() -> None:
    """The loss is known by then: sent to the dead one it would fail and yet be charged."""
    async with Upstreams(stdio()).connected() as upstreams:
        with pytest.raises(UpstreamFailedError):
            await upstreams.call("die")
        after = await upstreams.call("echo", text="back")

    assert after.result.sole_text == "back"


@pytest.mark.requirement("upstream.fault-is-contained")
async def test_a_server_that_dies_takes_no_other_along() -> None:
    other = UpstreamName("other")
    async with Upstreams(stdio(), stdio(name=other)).connected() as upstreams:
        before = await upstreams.call("pid", at=other)
        with pytest.raises(UpstreamFailedError):
            await upstreams.call("die")
        after = await upstreams.call("pid", at=other)

    assert before.result.sole_text == after.result.sole_text


@pytest.mark.requirement("input.upstream-never-answers")
@pytest.mark.requirement("upstream.timeout-is-settled")
async def test_a_call_without_an_answer_is_given_up_and_the_next_one_works() -> None:
    async with Upstreams(stdio()).connected() as upstreams:
        late = await upstreams.call("wait", wall_ms=50)
        next_one = await upstreams.call("echo", text="still here")

    assert late.status is CallStatus.TIMED_OUT
    assert late.result.is_error
    assert "within 50 ms" in (late.result.sole_text or "")
    assert next_one.result.sole_text == "still here"


@pytest.mark.requirement("input.upstream-cannot-start")
@pytest.mark.requirement("upstream.refused-is-released")
async def test_a_server_that_cannot_start_is_told_with_its_own_words() -> None:
    async with Upstreams(stdio("--refuse"), stdio(name=REMOTE)).connected() as upstreams:
        with pytest.raises(UpstreamNotReachedError, match="no configuration found"):
            await upstreams.call("echo", text="x")
        neighbour = await upstreams.call("echo", at=REMOTE, text="fine")

    assert neighbour.result.sole_text == "fine"


@pytest.mark.requirement("input.upstream-cannot-start")
async def test_a_program_that_does_not_exist_is_told() -> None:
    spec = StdioSpec(name=LOCAL, command=("/nonexistent/server",))

    async with Upstreams(spec).connected() as upstreams:
        state = upstreams.fleet.connections[0].state
        with pytest.raises(UpstreamNotReachedError, match="No such file"):
            await upstreams.call("echo", text="x")

    assert state is UpstreamState.DOWN


@pytest.mark.requirement("upstream.refused-is-released")
@pytest.mark.parametrize(
    ("code", "message"), [(-31_001, "cannot connect"), (-32_600, "Session terminated")]
)
async def test_an_upstream_cannot_claim_that_it_was_never_reached(code: int, message: str) -> None:
    """Such a call would be released: an upstream could work for its friends for nothing."""
    async with Upstreams(stdio()).connected() as upstreams:
        with pytest.raises(UpstreamFailedError):
            await upstreams.call("answer_with_code", code=code, message=message)


async def test_an_upstream_that_says_its_connection_closed_is_not_believed() -> None:
    """The code is free for servers to use; a call beside this one must not be cut off."""
    async with Upstreams(stdio()).connected() as upstreams:
        before = await upstreams.call("pid")
        with pytest.raises(UpstreamFailedError):
            await upstreams.call("answer_with_code", code=-32_000, message="quota exceeded")
        after = await upstreams.call("pid")

    assert before.result.sole_text == after.result.sole_text


async def test_nobody_can_measure_what_an_upstream_computes() -> None:
    upstreams = Upstreams(stdio(), HttpSpec(name=REMOTE, url="http://127.0.0.1:9/mcp"))

    for backend in upstreams.fleet.backends.values():
        assert set(backend.unmeasurable) == {*OF_THE_MACHINE, *OF_PROBES}
        assert backend.isolation_for(a_call(), LIMITS) is None


@dataclass
class Remote:
    """An HTTP MCP server in this process, whose `hold` tool answers when it is let go."""

    held: anyio.Event = field(default_factory=anyio.Event)
    let_go: anyio.Event = field(default_factory=anyio.Event)
    url: str = ""

    def app(self, *, content_type: str) -> ASGIApp:
        server = MCPServer("remote")

        @server.tool()
        async def hold() -> str:
            self.held.set()
            await self.let_go.wait()
            return "held to the end"

        @server.tool()
        def break_off() -> str:
            return "never sent whole"

        return BreakingOff(server.streamable_http_app(), content_type=content_type)


class BreakingOff:
    """Sends half an answer to calls of `break_off`, then closes the connection."""

    def __init__(self, app: ASGIApp, *, content_type: str) -> None:
        self._app = app
        self._content_type = content_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        first = await receive()
        if b'"break_off"' in first.get("body", b""):
            headers = [(b"content-type", self._content_type.encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            half = {"type": "http.response.body", "body": b'{"jsonrpc": "2.', "more_body": True}
            await send(half)
            raise ConnectionAbortedError
        waiting = [first]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, replay, send)


@asynccontextmanager
async def serving(content_type: str = "application/json") -> AsyncIterator[Remote]:
    remote = Remote()
    config = uvicorn.Config(
        remote.app(content_type=content_type), log_config=None, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        remote.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield remote
            finally:
                server.should_exit = True


def http(url: str) -> HttpSpec:
    return HttpSpec(name=REMOTE, url=url)


@pytest.mark.requirement("upstream.refused-is-released")
async def test_an_http_upstream_that_is_down_was_not_reached() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{held.getsockname()[1]}/mcp"
        async with Upstreams(http(url)).connected() as upstreams:
            with pytest.raises(UpstreamNotReachedError, match="remote is down"):
                await upstreams.call("hold", at=REMOTE)


@pytest.mark.requirement("upstream.fault-is-contained")
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
async def test_an_answer_that_breaks_off_fails_its_own_call_and_no_other(content_type: str) -> None:
    outcomes: list[Outcome] = []

    with anyio.fail_after(SECONDS_MAX):
        async with (
            serving(content_type) as remote,
            Upstreams(http(remote.url)).connected() as upstreams,
            anyio.create_task_group() as tasks,
        ):

            async def hold() -> None:
                outcomes.append(await upstreams.call("hold", at=REMOTE))

            tasks.start_soon(hold)
            await remote.held.wait()
            with pytest.raises(UpstreamFailedError):
                await upstreams.call("break_off", at=REMOTE)
            remote.let_go.set()

    assert [outcome.result.sole_text for outcome in outcomes] == ["held to the end"]


@pytest.mark.requirement("input.broken-requests")
async def test_an_answer_that_is_compressed_unasked_is_not_inflated() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)

    async def app(_: Scope, __: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bomb})

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    with anyio.fail_after(SECONDS_MAX):
        async with served(app) as url, contained_client({}, reach=NAMED) as client:
            answer = await client.post(url, json=message)

    assert "compressed" in answer.json()["error"]["message"]
    assert len(answer.content) < len(bomb)


@pytest.mark.requirement("upstream.fault-is-contained")
async def test_a_server_that_changes_its_tools_is_listed_again_and_keeps_running() -> None:
    spec = StdioSpec(name=LOCAL, command=SERVER)
    async with Upstreams(spec).connected() as upstreams:
        before = await upstreams.call("pid")
        grown = await upstreams.call("grow")
        [connected] = upstreams.fleet.connections
        connected.listener.hear(mcp_types.ToolListChangedNotification())
        while "local__late" not in {entry.exposed for entry in upstreams.stock.catalog}:
            await anyio.sleep(0.01)
        after = await upstreams.call("late")
        still = await upstreams.call("pid")

    assert before.result.sole_text == grown.result.sole_text == still.result.sole_text
    assert after.result.sole_text == "late"


async def test_an_upstream_cannot_set_the_keys_of_the_house() -> None:
    wire = {"content": [], "_meta": {"flyball/denial": {"reason": "x"}, "theirs": 1}}

    assert result_of(wire).meta == {"theirs": 1}


async def test_who_reads_the_log_of_a_slow_start_is_told_the_limit_and_when_it_is_up(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Until there is a file it is as slow as one that downloads what it runs."""
    slow = f'test -e "$0" || exec sleep 600; exec {SERVER[0]} {SERVER[1]}'
    fetched = tmp_path / "fetched"
    spec = StdioSpec(name=LOCAL, command=("/bin/sh", "-c", slow, str(fetched)), start_ms_max=1_000)

    with caplog.at_level("WARNING", logger="tool_gateway.upstreams.standing"):
        with anyio.fail_after(SECONDS_MAX):
            async with Upstreams(spec).connected() as upstreams:
                [upstream] = upstreams.fleet.connections
                await upstream.settled()
                fetched.touch()
                upstream.spec = replace(spec, start_ms_max=SECONDS_MAX * 1000)
                while upstream.state is not UpstreamState.READY:
                    await anyio.sleep(0.02)
                tools = len(upstream.entries)

    assert [record.getMessage() for record in caplog.records] == [
        "upstream local is down: it was not ready within 1 s (it may still be downloading)",
        f"upstream local is up again, {tools} tools",
    ]
