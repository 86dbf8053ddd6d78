"""When the sidecar says that it can serve, and what it says of its upstreams."""

from types import SimpleNamespace

import pytest

from governor.breaker import BreakerTerms
from governor.ids import UpstreamName
from memory_store.errors import StoreError, StoreOverloadedError, StoreUnavailableError
from runtime.readiness import Readiness
from tests.tool_gateway.makers import FakeClock
from tool_gateway.breakers import Breakers
from tool_gateway.upstreams.spec import HttpSpec, StdioSpec, UpstreamSpec
from tool_gateway.upstreams.standing import UpstreamState
from tool_gateway.upstreams.vitals import EndCause, Vitals

TIME = StdioSpec(name=UpstreamName("time"), command=("mcp-server-time",))
NOTES = HttpSpec(name=UpstreamName("notes"), url="http://notes.test/mcp")


RESTING = {"problem": None, "pid": None, "started_at_ms": None, "restarts": 0}


class CheckedStore:
    """A store whose check fails as a test says."""

    def __init__(self, error: StoreError | None = None) -> None:
        self._error = error

    async def check(self) -> None:
        if self._error is not None:
            raise self._error


def connection(
    spec: UpstreamSpec, *, state: UpstreamState, problem: str = "", tools: int = 0
) -> SimpleNamespace:
    vitals = Vitals(name=spec.name)
    vitals.stderr.feed(b"token=hush-hush\n")
    return SimpleNamespace(
        name=spec.name,
        spec=spec,
        state=state,
        problem=problem,
        protocol_version="2025-11-25" if tools else None,
        entries=[object()] * tools,
        vitals=vitals,
        placed_as=spec.name,
    )


class Placement:
    """Knows the processes of servers."""

    async def server_processes(self, name: str) -> tuple[int, ...]:
        return (7, 8, 9) if name == "time" else ()


def readiness(*connections: SimpleNamespace, store_error: StoreError | None = None) -> Readiness:
    relays = {one.name: SimpleNamespace(own_connections=connections[1:]) for one in connections}
    fleet = SimpleNamespace(connections=connections, relays=relays)
    return Readiness(
        store=CheckedStore(store_error),
        fleet=fleet,
        breakers=Breakers({"time": BreakerTerms()}, clock=FakeClock()),
        placement=Placement(),
        now_ms=lambda: 1_700_000_000_000,
    )


@pytest.mark.anyio
async def test_a_sidecar_whose_store_answers_is_ready() -> None:
    assert await readiness().problems() == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    "error", [StoreUnavailableError("disk full"), StoreOverloadedError("queue full")]
)
async def test_a_store_that_does_not_answer_is_a_problem_in_its_own_words(
    error: StoreError,
) -> None:
    problems = await readiness(store_error=error).problems()

    assert problems == [f"the store does not answer: {error}"]


@pytest.mark.anyio
async def test_a_sidecar_that_drains_is_not_ready_and_says_all_that_is_wrong() -> None:
    asked = readiness(store_error=StoreUnavailableError("disk full"))
    asked.drain()

    assert await asked.problems() == [
        "the sidecar is shutting down",
        "the store does not answer: disk full",
    ]


@pytest.mark.anyio
@pytest.mark.requirement("upstream.fault-is-contained")
async def test_an_upstream_that_is_down_is_reported_and_does_not_count() -> None:
    up = connection(TIME, state=UpstreamState.READY, tools=2)
    down = connection(NOTES, state=UpstreamState.DOWN, problem="connection refused")

    asked = readiness(up, down)

    assert await asked.problems() == []
    assert asked.upstreams() == [
        {
            "name": "time",
            "kind": "stdio",
            "protocol_version": "2025-11-25",
            "tools": 2,
            **RESTING,
            "state": "ready",
            "breaker": {
                "phase": "closed",
                "failed": 0,
                "ended": 0,
                "window_ms": 60_000,
                "retry_after_ms": None,
            },
        },
        {
            "name": "notes",
            "kind": "http",
            "protocol_version": None,
            "tools": 0,
            **RESTING,
            "state": "down",
            "problem": "connection refused",
            "breaker": None,
        },
    ]


@pytest.mark.anyio
async def test_an_upstream_is_told_whole_with_its_processes_its_end_and_its_words() -> None:
    up = connection(TIME, state=UpstreamState.READY)
    own = connection(TIME, state=UpstreamState.STARTING)
    up.vitals.ready()
    up.vitals.blame(EndCause.UNHEALTHY, "it hung")
    up.vitals.exited(-9)
    up.vitals.end(otherwise="lost")
    up.vitals.started(7)
    up.vitals.ready()

    asked = readiness(up, own)
    told, unknown = await asked.upstream("time"), await asked.upstream("other")

    assert unknown is None
    assert told is not None
    assert (told["pid"], told["pids"], told["restarts"]) == (7, [7, 8, 9], 1)
    assert told["started_at_ms"] == pytest.approx(1_700_000_000_000, abs=60_000)
    ended = told["last_end"]
    assert isinstance(ended, dict)
    assert (ended["cause"], ended["why"], ended["exit_code"], ended["signal"]) == (
        "unhealthy",
        "it hung",
        None,
        9,
    )
    assert told["stderr"] == ["token=[redacted]"]
    assert told["sessions"] == [{**RESTING, "state": "starting"}]
    assert told["health"] == {
        "every_s": 30,
        "failed": 0,
        "answered_at_ms": pytest.approx(told["started_at_ms"], abs=60_000),
    }
