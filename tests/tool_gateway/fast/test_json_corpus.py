"""Every odd body meets the same answer on the short way in and on the SDK's front, in each era."""

import json
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from tests import json_corpus
from tests.tool_gateway.fast.test_modern_front import META, Fronts, a_call, posted
from tool_gateway.front.json_text import DEPTH_MAX, NotJsonError, is_too_deep, value_in
from tool_gateway.front.messages import Messages

pytestmark = pytest.mark.anyio
PARSE_ERROR, INVALID_REQUEST = -32_700, -32_600
BODY_BYTES_MAX = 100_000
OF_SESSIONS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


def told(answer: httpx.Response) -> tuple[int, Any, Any]:
    """Return the status, the id, and the code of an error or whether a result is one."""
    body = answer.json()
    if "error" in body:
        return answer.status_code, body.get("id"), body["error"]["code"]
    if "result" in body:
        return answer.status_code, body["id"], body["result"].get("isError", False)
    return answer.status_code, None, None  # a problem document of the house's own


@pytest.mark.requirement("input.json-corpus")
async def test_a_body_that_is_no_message_is_refused_alike_on_every_way() -> None:
    fronts, wrong = Fronts(), {}
    async with fronts.running() as (short, beside):
        for name, body in json_corpus.ALL.items():
            if len(body) > BODY_BYTES_MAX:
                continue
            answers = {
                "short": told(await posted(short, a_call()[0], body)),
                "whole": told(await posted(beside, a_call()[0], body)),
                "sessions": told(await posted(beside, OF_SESSIONS, body)),
            }
            code = {"n": PARSE_ERROR, "y": INVALID_REQUEST}.get(name[0])
            codes = {code} if code is not None else {PARSE_ERROR, INVALID_REQUEST}
            expected = {(400, None, code) for code in codes}
            if len(set(answers.values())) != 1 or not set(answers.values()) <= expected:
                wrong[name] = answers

    assert wrong == {}
    assert [house.ledger.events for house in fronts.houses] == [[], []]


@pytest.mark.requirement("input.json-corpus")
@pytest.mark.parametrize("name", json_corpus.ALL)
async def test_an_odd_argument_is_taken_or_refused_alike_on_every_way(name: str) -> None:
    body = json_corpus.in_a_call(json_corpus.ALL[name], meta=json.dumps(META).encode())
    fronts = Fronts()
    async with fronts.running() as (short, beside):
        ours = await posted(short, a_call()[0], body)
        theirs = await posted(beside, a_call()[0], body)

    assert told(ours) == told(theirs)
    if len(body) > BODY_BYTES_MAX:
        assert ours.status_code == 413
    elif name.startswith("n_"):
        assert told(ours) == (400, None, PARSE_ERROR)
    elif name.startswith("y_"):
        assert told(ours) == (200, 7, False)
    for house in fronts.houses:
        assert house.ledger.books.live == {}
        # What arrives is what was sent, whichever way it came.
        assert [call.arguments for call in house.backend.ran] == [
            call.arguments for call in fronts.houses[0].backend.ran
        ]


@pytest.mark.requirement("input.json-corpus")
@pytest.mark.parametrize("name", [name for name in json_corpus.ALL if name[0] != "i"])
def test_what_is_json_is_read_and_what_is_not_is_refused(name: str) -> None:
    content = json_corpus.ALL[name]

    if name.startswith("y_"):
        assert value_in(content) == json.loads(content)
    else:
        with pytest.raises(NotJsonError):
            value_in(content)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_what_is_nested_as_deep_as_allowed_is_read_and_no_deeper(opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"

    def nested(depth: int) -> bytes:
        return opening * depth + b"1" + closing * depth

    assert value_in(nested(DEPTH_MAX)) is not None
    with pytest.raises(NotJsonError, match="nested"):
        value_in(nested(DEPTH_MAX + 1))
    wide = b"[" + b"[]," * DEPTH_MAX + b"1]"
    assert not is_too_deep(wide, json.loads(wide))


@pytest.mark.requirement("input.json-corpus")
@pytest.mark.parametrize("era", ["short", "whole", "sessions"])
@pytest.mark.parametrize("count", [0, 1, 2])
async def test_a_batch_is_refused_in_every_era_and_says_so(era: str, count: int) -> None:
    headers, one = a_call()
    body = json.dumps([one] * count).encode()
    if era == "sessions":
        headers = {**OF_SESSIONS, "mcp-protocol-version": "2025-03-26"}
    fronts = Fronts()
    async with fronts.running() as (short, beside):
        answer = await posted(short if era == "short" else beside, headers, body)

    assert told(answer) == (400, None, INVALID_REQUEST)
    assert "batches" in answer.json()["error"]["message"]
    assert [house.backend.ran for house in fronts.houses] == [[], []]


@pytest.mark.requirement("input.json-corpus")
@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": {}, "method": "ping"},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]},
        {"jsonrpc": "2.0", "id": 1},
        {},
    ],
)
async def test_what_is_no_message_is_an_invalid_request_in_the_era_of_sessions(
    message: dict[str, Any],
) -> None:
    fronts = Fronts()
    async with fronts.running() as (_, beside):
        answer = await posted(beside, OF_SESSIONS, json.dumps(message).encode())

    assert told(answer) == (400, None, INVALID_REQUEST)


@pytest.mark.requirement("input.duplicate-ids")
@pytest.mark.parametrize("second_id", [1, "1"])
async def test_a_second_request_with_an_id_that_is_under_way_is_refused_and_the_first_goes_on(
    second_id: object,
) -> None:
    started, may_end, served = anyio.Event(), anyio.Event(), []

    async def app(_: Any, receive: Any, send: Any) -> None:
        served.append((await receive())["body"])
        started.set()
        await may_end.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    front = Messages(app)
    headers = {**OF_SESSIONS, "mcp-session-id": "s"}
    answers: dict[str, httpx.Response] = {}

    async def ask(name: str, **more: object) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", **more}
        answers[name] = await posted(front, headers, json.dumps(message).encode())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "first")
            await started.wait()
            message = {"jsonrpc": "2.0", "id": second_id, "method": "tools/call"}
            again = await posted(front, headers, json.dumps(message).encode())
            elsewhere = {**headers, "mcp-session-id": "other"}
            tasks.start_soon(posted, front, elsewhere, json.dumps(message).encode())
            while len(served) < 2:
                await anyio.lowlevel.checkpoint()
            may_end.set()
        await ask("later")

    assert told(again) == (400, None, INVALID_REQUEST)
    assert "under way" in again.json()["error"]["message"]
    assert (answers["first"].status_code, answers["later"].status_code) == (200, 200)
