"""Requests go on with the trace that a client names, also where nobody collects spans."""

from typing import Any

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from runtime.telemetry import collect_metrics
from runtime.traced_requests import TracedRequests
from runtime.version import VERSION
from tool_gateway.spans import context_to_send

pytestmark = pytest.mark.anyio

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = b"vendor=opaque"


@pytest.fixture(autouse=True)
def nobody_collects() -> None:
    collect_metrics(version=VERSION)


async def sent_on(*headers: tuple[bytes, bytes], meta: Any = None) -> dict[str, str]:
    """Return what an upstream would be told of a request with these headers."""
    told: list[dict[str, str]] = []

    async def app(_: Scope, __: Receive, ___: Send) -> None:
        await anyio.lowlevel.checkpoint()
        told.append(dict(context_to_send(meta or {})))

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        """Take it."""

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": list(headers)}
    await TracedRequests(app, routes=["/mcp"])(scope, receive, send)
    return told[0]


@pytest.mark.requirement("trace.client-to-upstream")
async def test_a_trace_is_handed_on_as_it_came() -> None:
    told = await sent_on((b"traceparent", PARENT), (b"tracestate", STATE), (b"baggage", b"who=me"))

    assert told == {"traceparent": PARENT.decode(), "tracestate": STATE.decode()}
    assert dict(context_to_send({})) == {}  # and ends with its request


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"traceparent", b"nonsense")],
        [(b"traceparent", b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01")],
        [(b"traceparent", PARENT), (b"traceparent", PARENT)],
        [(b"traceparent", PARENT + b"x" * 10_000)],
        [(b"traceparent", b"\xff" * 55)],
    ],
    ids=["none", "nonsense", "zero", "two", "long", "no-text"],
)
async def test_what_cannot_be_read_is_no_trace(headers: list[tuple[bytes, bytes]]) -> None:
    assert await sent_on(*headers) == {}


async def test_what_a_client_writes_into_meta_goes_before_its_header() -> None:
    assert await sent_on((b"traceparent", PARENT), meta={"traceparent": "theirs"}) == {}
