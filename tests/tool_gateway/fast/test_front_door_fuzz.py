"""The front door under random requests: valid ones with members, headers and bytes changed."""

import json
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import anyio
import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tool_gateway.fast.test_modern_front import Fronts, a_call, a_list, posted

Request = tuple[dict[str, str], bytes]
EXAMPLES_MAX = 600
SECONDS_MAX = 8
CODES = {
    -32_700, -32_600, -32_601, -32_602, -32_001, -32_002, -32_020, -32_021, -32_022,
}  # fmt: skip

# Values that parsers and printers trip over, beside any JSON.
ODD = st.sampled_from(
    [
        None, True, False, 0, -1, 1.5, 2**53, 2**63, 2**64, 10**400, 1e308, -0.0, "", "\0",
        "\ud800", "\ufeff", "a" * 70_000, "=?base64?ZmlsZXNfX3JlYWQ=?=", "../..", "files__read", [],
        {}, [[]], {"": {}}, {"__proto__": 1}, [None] * 300,
    ]
)  # fmt: skip
ANY = st.recursive(
    ODD | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        "jsonrpc", "id", "method", "params", "_meta", "name", "arguments", "path", "region",
        "progressToken", "flyball/session", "flyball/turn", "flyball/idempotency_key",
        "flyball/deadline_ms", "flyball/priority", "flyball/task_class", "flyball/read_only",
        "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/logLevel",
        "inputResponses", "requestState", "task", "cursor",
    ]
) | st.text(max_size=5)  # fmt: skip
HEADERS = st.sampled_from(
    [
        "content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name",
        "mcp-session-id", "mcp-param-region", "flyball-session", "flyball-turn",
        "flyball-deadline-ms", "flyball-priority", "flyball-read-only", "idempotency-key",
        "last-event-id", "traceparent",
    ]
)  # fmt: skip
VALUES = st.sampled_from(
    [
        "", " ", "application/json", "text/event-stream", "*/*", "2026-07-28", "2025-11-25",
        "2025-03-26", "9999-99-99", "tools/call", "tools/list", "initialize", "server/discover",
        "resources/read", "subscriptions/listen", "files__read", "files__plain", "nope", "true",
        "high", "0", "-1", "9" * 400, "=?base64?!?=", "\xff\xfe", "x" * 300,
    ]
) | st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=255), max_size=20)  # fmt: skip
METHODS = st.sampled_from(
    [
        "tools/call", "tools/list", "server/discover", "initialize", "ping", "resources/list",
        "resources/read", "prompts/get", "completion/complete", "tasks/get", "x/y",
        "notifications/initialized", "notifications/cancelled", "logging/setLevel",
        "resources/subscribe",
    ]
)  # fmt: skip


@st.composite
def requests(draw: Any) -> Request:
    """Return a request that was valid until something of it was changed."""
    headers, body = deepcopy(draw(st.sampled_from([a_call, a_list]))())
    if draw(st.booleans()):
        body["method"] = draw(METHODS)
        if draw(st.booleans()):
            headers["mcp-method"] = body["method"]
    for _ in range(draw(st.integers(0, 3))):
        _change_member(draw, body)
    for _ in range(draw(st.integers(0, 2))):
        name = draw(HEADERS)
        if draw(st.booleans()):
            headers.pop(name, None)
        else:
            headers[name] = draw(VALUES)
    content = json.dumps(body).encode()
    if draw(st.integers(0, 4)) == 0:
        content = _damaged(draw, content)
    return headers, content


def _change_member(draw: Any, body: dict[str, Any]) -> None:
    """Set, add or remove a member somewhere."""
    places = [body]
    for place in places:
        places.extend(value for value in place.values() if isinstance(value, dict))
    place = draw(st.sampled_from(places))
    name = draw(st.sampled_from(sorted(place))) if place and draw(st.booleans()) else draw(NAMES)
    if draw(st.integers(0, 3)) == 0:
        place.pop(name, None)
    else:
        place[name] = deepcopy(draw(ANY))  # what is drawn is shared, and changed later


def _damaged(draw: Any, content: bytes) -> bytes:
    """Cut, double or overwrite a part of the bytes."""
    at = draw(st.integers(0, max(0, len(content) - 1)))
    end = min(len(content), at + draw(st.integers(0, 12)))
    with_ = draw(st.binary(max_size=6) | st.just(content[at:end] * 2))
    return content[:at] + with_ + content[end:]


def is_told(answer: httpx.Response) -> bool:
    """Tell whether an answer is one that a client can read: JSON-RPC, a problem, or no body."""
    if not answer.content:
        return answer.status_code in {202, 204, 400, 404, 405, 406, 415, 421}
    kind = answer.headers["content-type"].partition(";")[0]
    if kind == "text/event-stream":
        events = answer.text.replace("\r\n", "\n").split("\n\n")
        lines = [line for event in events for line in event.split("\n") if line[:6] == "data: "]
        messages = [json.loads(line[6:]) for line in lines if line[6:].strip()]
        return all(map(_is_message, messages))
    body = answer.json()
    if kind == "application/problem+json":
        return bool(body["status"] == answer.status_code and body["title"])
    return _is_message(body)


def _is_message(body: dict[str, Any]) -> bool:
    if body["jsonrpc"] != "2.0":
        return False
    if "error" in body:
        error = body["error"]
        return error["code"] in CODES and isinstance(error["message"], str) and "id" in body
    return "result" in body or "method" in body


@pytest.fixture(scope="module")
def door() -> Iterator[Callable[[Request], str | None]]:
    """Both fronts, made once: that takes longer than an example."""
    fronts = Fronts(calls=10**9, seconds_max=300)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(fronts.running()) as ways,
    ):
        yield lambda request: portal.call(_fault_of, fronts, ways, request)


@pytest.mark.requirement("input.front-door-fuzz")
@pytest.mark.timeout(300)
def test_no_request_is_answered_with_a_fault_of_ours_or_leaves_a_hold(
    door: Callable[[Request], str | None],
) -> None:
    ends = time.monotonic() + SECONDS_MAX

    @settings(
        max_examples=EXAMPLES_MAX,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(request=requests())
    def example(request: Request) -> None:
        if time.monotonic() < ends:  # bounded in time; what is left is for another seed
            assert door(request) is None

    example()


async def _fault_of(fronts: Fronts, ways: tuple[Any, Any], request: Request) -> str | None:
    """Return what is wrong with how a request is answered, None if nothing is."""
    headers: Any = {name: value.encode("latin-1") for name, value in request[0].items()}
    answers = []
    for way in ways:
        with anyio.fail_after(60):
            answers.append(await posted(way, headers, request[1]))
    for answer in answers:
        if answer.status_code >= 500 or "Traceback" in answer.text or not is_told(answer):
            return f"HTTP {answer.status_code} {answer.headers} {answer.text[:500]}"
    if answers[0].status_code != answers[1].status_code:
        return f"{answers[0].text[:300]} but the SDK's front: {answers[1].text[:300]}"
    if any(house.ledger.books.live or len(house.running) for house in fronts.houses):
        return "a hold is left"
    return None
