"""When the sidecar says that it can serve, and what it says of its upstreams."""

from types import SimpleNamespace

import pytest

from governor.breaker import BreakerTerms
from governor.ids import UpstreamName
from memory_store.errors import StoreError, StoreOverloadedError, StoreUnavailableError
from runtime.readiness import Readiness
from tests.tool_gateway.makers import FakeClock
from tool_gateway.breakers import Breakers
from tool_gateway.upstreams.connection import UpstreamState
from tool_gateway.upstreams.spec import HttpSpec, StdioSpec, UpstreamSpec

TIME = StdioSpec(name=UpstreamName("time"), command=("mcp-server-time",))
NOTES = HttpSpec(name=UpstreamName("notes"), url="http://notes.test/mcp")


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
    return SimpleNamespace(
        name=spec.name,
        spec=spec,
        state=state,
        problem=problem,
        protocol_version="2025-11-25" if tools else None,
        entries=[object()] * tools,
    )


def readiness(*connections: SimpleNamespace, store_error: StoreError | None = None) -> Readiness:
    fleet = SimpleNamespace(connections=connections)
    breakers = Breakers({"time": BreakerTerms()}, clock=FakeClock())
    return Readiness(store=CheckedStore(store_error), fleet=fleet, breakers=breakers)


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
            "state": "ready",
            "problem": None,
            "protocol_version": "2025-11-25",
            "tools": 2,
            "breaker": {"phase": "closed", "failed": 0, "ended": 0, "retry_after_ms": None},
        },
        {
            "name": "notes",
            "kind": "http",
            "state": "down",
            "problem": "connection refused",
            "protocol_version": None,
            "tools": 0,
            "breaker": None,
        },
    ]
