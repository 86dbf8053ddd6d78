"""Calls that are sent again, against real servers that fail in real ways."""

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from governor.amounts import Unit
from governor.call import CallStatus
from governor.fairness.claim import Urgency
from governor.ids import SessionId, ToolName, UpstreamName
from governor.manifest import Pin
from governor.retrying import RetryTerms, Sent
from tests.governor.makers import budget
from tests.proof.virtual_time import run_virtually
from tests.tool_gateway.makers import ENTRY, LIMITS, House, a_call
from tests.tool_gateway.test_pins import FakeManifestStore
from tests.tool_gateway.test_upstreams import Placement
from tool_gateway.errors import (
    UpstreamDownError,
    UpstreamFailedError,
    UpstreamLostError,
    UpstreamNotReachedError,
    UpstreamRefusedError,
)
from tool_gateway.exchange import NOBODY, Patience
from tool_gateway.front.short_exchange import ShortExchange
from tool_gateway.guards.pins import Pins
from tool_gateway.ports import Meter
from tool_gateway.results import Json, Outcome
from tool_gateway.stock import Stock
from tool_gateway.upstreams.attempts import Attempts
from tool_gateway.upstreams.connection import UpstreamConnection
from tool_gateway.upstreams.fleet import UpstreamFleet
from tool_gateway.upstreams.relay import UpstreamRelay
from tool_gateway.upstreams.spec import Care, HttpSpec

pytestmark = pytest.mark.anyio

FLAKY = UpstreamName("flaky")
SECONDS_MAX = 60
FAST = RetryTerms(retries=2, pause_ms=1, pause_ms_max=1)


@dataclass
class Flaky:
    """An MCP server over HTTP that fails the first `failing` calls in the way of `fail`."""

    failing: int = 1
    status: int = 503
    hang: bool = False
    tried: list[dict[str, object]] = field(default_factory=list)
    ran: int = 0
    url: str = ""

    def app(self) -> ASGIApp:
        server = MCPServer("flaky")

        @server.tool(annotations=ToolAnnotations(readOnlyHint=True), structured_output=False)
        def look() -> str:
            self.ran += 1
            return f"seen {self.ran}"

        @server.tool(structured_output=False)
        def change() -> str:
            self.ran += 1
            return f"changed {self.ran}"

        return _Failing(server.streamable_http_app(), self)


class _Failing:
    def __init__(self, app: ASGIApp, flaky: Flaky) -> None:
        self._app = app
        self._flaky = flaky

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        first = await receive()
        flaky = self._flaky
        if b'"tools/call"' in first.get("body", b""):
            flaky.tried.append(json.loads(first["body"])["params"])
            if len(flaky.tried) <= flaky.failing:
                if flaky.hang:
                    await anyio.sleep_forever()
                head = {"type": "http.response.start", "status": flaky.status, "headers": []}
                await send(head)
                await send({"type": "http.response.body", "body": b"overloaded"})
                return
        waiting = [first]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, replay, send)


@asynccontextmanager
async def served(flaky: Flaky, *, port: int = 0) -> AsyncIterator[None]:
    config = uvicorn.Config(flaky.app(), log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", port)) as listener:
        flaky.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield
            finally:
                server.should_exit = True


@dataclass
class Caller:
    """A connected fleet of one upstream, and the shortest way to call it."""

    fleet: UpstreamFleet
    session: SessionId | None = None

    async def call(
        self, tool: str, *, wall_ms: int = 60_000, deadline_ms: int | None = None
    ) -> Outcome:
        call = replace(
            a_call(), tool=ToolName(f"flaky__{tool}"), urgency=Urgency(deadline_ms=deadline_ms)
        )
        limits = replace(LIMITS, wall_ms=wall_ms)
        exchange = NOBODY
        if self.session is not None:
            exchange = ShortExchange(self.session, capabilities={}, meta={}, bearer=None)
        backend = self.fleet.relays[FLAKY].backend_for(exchange)
        return await backend.run(call, limits, Meter())


@asynccontextmanager
async def calling(
    flaky: Flaky,
    *,
    pin: Pin = Pin.FIRST_USE,
    care: Care | None = None,
    is_frozen: Callable[[SessionId], bool] = lambda _: False,
) -> AsyncIterator[Caller]:
    with anyio.fail_after(SECONDS_MAX):
        async with served(flaky):
            spec = HttpSpec(name=FLAKY, url=flaky.url, care=care or Care(retry=FAST))
            pins = Pins({FLAKY: pin}, store=FakeManifestStore())
            fleet = UpstreamFleet(
                [spec], placement=Placement(), stock=Stock(()), pins=pins, is_frozen=is_frozen
            )
            async with fleet.connected():
                await pins.pin_met()
                yield Caller(fleet)


@pytest.mark.requirement("upstream.retried-only-where-safe")
async def test_a_tool_that_was_approved_as_read_only_is_called_again() -> None:
    flaky = Flaky(failing=2)

    async with calling(flaky) as caller:
        outcome = await caller.call("look")

    assert outcome.result.sole_text == "seen 1"
    assert outcome.detail.startswith("attempt 3; before: ")
    assert "HTTP 503" in outcome.detail
    assert len(flaky.tried) == 3


@pytest.mark.requirement("upstream.retried-only-where-safe")
@pytest.mark.parametrize(("tool", "pin"), [("change", Pin.FIRST_USE), ("look", Pin.OFF)])
async def test_what_may_have_happened_is_not_done_twice_nor_a_stranger_believed(
    tool: str, pin: Pin
) -> None:
    flaky = Flaky()

    async with calling(flaky, pin=pin) as caller:
        with pytest.raises(UpstreamLostError):
            await caller.call(tool)

    assert len(flaky.tried) == 1


async def test_a_server_that_knows_its_keys_gets_the_same_one_again() -> None:
    flaky = Flaky()

    async with calling(flaky, care=Care(retry=FAST, idempotent_by_key=True)) as caller:
        outcome = await caller.call("change")
        await caller.call("change")

    assert outcome.result.sole_text == "changed 1"
    keys = [dict(params["_meta"])["flyball/idempotency_key"] for params in flaky.tried]
    assert keys[0] == keys[1]


@pytest.mark.requirement("upstream.retries-are-bounded")
async def test_retries_end() -> None:
    flaky = Flaky(failing=100)

    async with calling(flaky) as caller:
        with pytest.raises(UpstreamLostError):
            await caller.call("look")

    assert len(flaky.tried) == 3


async def test_the_operator_can_switch_retries_off() -> None:
    flaky = Flaky()

    async with calling(flaky, care=Care(retry=RetryTerms(retries=0))) as caller:
        with pytest.raises(UpstreamLostError):
            await caller.call("look")

    assert len(flaky.tried) == 1


@pytest.mark.requirement("upstream.retries-are-bounded")
def test_all_attempts_together_end_with_the_time_of_the_call() -> None:
    begun_at: list[float] = []

    async def hang(patience: Patience) -> Json:
        begun_at.append(anyio.current_time())
        with patience.limited():
            await anyio.sleep_forever()

    async def call() -> None:
        with pytest.raises(TimeoutError):
            await attempts(wall_ms=900, answer_ms_max=500).run(hang)

        # The third would have begun at the end of its time.
        assert begun_at == pytest.approx([0, 0.5])
        assert anyio.current_time() == pytest.approx(0.9)

    run_virtually(0, call)


@pytest.mark.requirement("contention.deadline-is-kept")
async def test_a_deadline_is_for_the_start_and_cuts_no_run_short() -> None:
    flaky = Flaky(failing=1)
    waits = RetryTerms(retries=1, pause_ms=50, pause_ms_max=50)

    async with calling(flaky, care=Care(retry=waits)) as caller:
        outcome = await caller.call("look", deadline_ms=1)

    assert outcome.status is CallStatus.OK
    assert outcome.result.sole_text == "seen 1"


def test_one_attempt_has_a_time_of_its_own() -> None:
    limits_ms: list[int] = []

    async def send(patience: Patience) -> Json:
        limits_ms.append(at[0].limit_ms)
        with patience.limited():
            if len(limits_ms) == 1:
                await anyio.sleep_forever()
        return {"seen": len(limits_ms)}

    async def call() -> None:
        at.append(attempts(wall_ms=5_000, answer_ms_max=100))

        assert await at[0].run(send) == {"seen": 2}
        assert anyio.current_time() == pytest.approx(0.1)

    at: list[Attempts] = []
    run_virtually(0, call)

    assert limits_ms == [100, 100]
    assert "no answer within 100 ms" in at[0].detail


async def test_who_was_not_answered_in_an_attempts_time_is_asked_again() -> None:
    flaky = Flaky(failing=1, hang=True)

    async with calling(flaky, care=Care(retry=FAST, answer_ms_max=2_000)) as caller:
        outcome = await caller.call("look")

    assert outcome.result.sole_text == "seen 1"
    assert "no answer within 2000 ms" in outcome.detail


@pytest.mark.requirement("upstream.retried-only-where-safe")
async def test_a_call_that_nobody_took_is_sent_again_whatever_it_does() -> None:
    flaky = Flaky(failing=0)
    waits = RetryTerms(retries=10, pause_ms=100, pause_ms_max=500)
    up, go_down, gone = anyio.Event(), anyio.Event(), anyio.Event()
    outcomes: list[Outcome] = []

    async def serve_for_a_while() -> None:
        async with served(flaky):
            up.set()
            await go_down.wait()
        gone.set()

    async def call(fleet: UpstreamFleet) -> None:
        outcomes.append(await Caller(fleet).call("change"))

    with anyio.fail_after(SECONDS_MAX):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_for_a_while)
            await up.wait()
            spec = HttpSpec(name=FLAKY, url=flaky.url, care=Care(retry=waits))
            fleet = UpstreamFleet(
                [spec], placement=Placement(), stock=Stock(()), below=lambda bound: bound - 1
            )
            async with fleet.connected(), anyio.create_task_group() as calls:
                go_down.set()
                await gone.wait()
                calls.start_soon(call, fleet)
                await anyio.wait_all_tasks_blocked()
                async with served(flaky, port=int(flaky.url.split(":")[2].split("/")[0])):
                    while not outcomes:
                        await anyio.sleep(0.01)

    assert outcomes[0].result.sole_text == "changed 1"
    assert "cannot connect" in outcomes[0].detail


@pytest.mark.requirement("upstream.retries-charge-once")
async def test_one_hold_covers_all_attempts_and_what_they_took_is_charged_once() -> None:
    flaky = Flaky()
    house = House(budget("calls", tool_calls=10), budget("money", cost_microusd=100))

    async with calling(flaky) as caller:
        house.backend = caller.fleet.backends[FLAKY]
        house.entry = replace(ENTRY, exposed=ToolName("flaky__look"), backend=FLAKY)
        result = await house.run(replace(a_call(), tool=ToolName("flaky__look")))

    assert result.sole_text == "seen 1"
    assert len(flaky.tried) == 2
    assert len(house.ledger.events) == 2  # one hold, one settlement
    assert house.ledger.remaining(Unit.TOOL_CALLS) == 9
    assert house.ledger.remaining(Unit.COST_MICROUSD) == 100 - 7
    assert house.record.detail.startswith("attempt 2; before: ")


def attempts(
    *, is_repeatable: bool = True, wall_ms: int = 60_000, answer_ms_max: int = 60_000
) -> Attempts:
    return Attempts(
        "up",
        FAST,
        wall_ms=wall_ms,
        answer_ms_max=answer_ms_max,
        is_repeatable=is_repeatable,
        below=lambda _: 0,
    )


@pytest.mark.requirement("upstream.refused-is-released")
async def test_a_call_of_which_an_attempt_was_sent_is_never_taken_for_unsent() -> None:
    errors = [UpstreamLostError("broke off"), *[UpstreamRefusedError("refused")] * 2]

    async def send(_: Patience) -> Json:
        raise errors.pop(0)

    # An upstream that loses a call and then takes none is as ill as one that loses every one.
    with pytest.raises(UpstreamLostError, match="an earlier attempt was sent"):
        await attempts().run(send)


@pytest.mark.requirement("upstream.refused-is-released")
async def test_a_call_that_nobody_ever_took_was_not_sent() -> None:
    async def send(_: Patience) -> Json:
        raise UpstreamRefusedError("refused")

    with pytest.raises(UpstreamNotReachedError):
        await attempts().run(send)


async def test_whoever_was_asked_something_is_not_asked_again() -> None:
    tried: list[Patience] = []

    async def send(patience: Patience) -> Json:
        tried.append(patience)
        with patience.limited(), patience.asking():
            await anyio.sleep(0.01)
        raise UpstreamLostError("broke off")

    with pytest.raises(UpstreamLostError):
        await attempts().run(send)

    assert len(tried) == 1


async def test_a_server_that_was_waited_for_in_vain_is_not_waited_for_again() -> None:
    tried: list[Patience] = []

    async def send(patience: Patience) -> Json:
        tried.append(patience)
        raise UpstreamDownError("it is down")

    at = attempts()
    with pytest.raises(UpstreamDownError):
        await at.run(send)

    assert len(tried) == 1
    assert at.sent_by(UpstreamDownError()) is Sent.NOTHING


@pytest.mark.requirement("session.frozen-sends-nothing")
async def test_a_session_that_was_frozen_while_its_call_paused_sends_it_no_second_time() -> None:
    flaky = Flaky(failing=100)

    async with calling(flaky, is_frozen=lambda one: one == "one" and bool(flaky.tried)) as caller:
        caller.session = SessionId("one")
        with pytest.raises(UpstreamFailedError, match="session was frozen before it was sent"):
            await caller.call("look")
        caller.session = SessionId("two")
        with pytest.raises(UpstreamLostError):
            await caller.call("look")

    assert len(flaky.tried) == 1 + 3


@pytest.mark.requirement("session.frozen-sends-nothing")
async def test_a_session_that_was_frozen_while_its_call_waited_sends_nothing() -> None:
    flaky = Flaky(failing=0)

    async with calling(flaky, is_frozen=lambda _: True) as caller:
        caller.session = SessionId("one")
        with pytest.raises(UpstreamNotReachedError):
            await caller.call("look")

    assert flaky.tried == []


async def test_a_call_does_not_wait_for_a_server_beyond_its_own_time() -> None:
    spec = HttpSpec(name=FLAKY, url="http://127.0.0.1:9/mcp")
    connection = UpstreamConnection(
        spec, placement=Placement(), on_tools=lambda: None, publish=lambda _: None
    )
    relay = UpstreamRelay(connection, placement=Placement(), publish=lambda _: None)
    limits = replace(LIMITS, wall_ms=20)

    with anyio.fail_after(60), pytest.raises(UpstreamDownError, match="in the time of the call"):
        await relay.backend_for(NOBODY).run(a_call(), limits, Meter())
