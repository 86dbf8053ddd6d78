"""Streamed chats: relayed as they come, and settled whatever becomes of them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from starlette.types import Message

from governor.amounts import Unit
from governor.call import CallStatus
from runtime.model_gateway import front
from runtime.model_gateway.counting.tokenizer import TOKEN_BYTES_MAX
from runtime.model_gateway.providers.spec import Timeouts
from tests.model_upstream.chat_goldens import CHAT as GOLDENS
from tests.model_upstream.chat_goldens import DONE, chunk, usage
from tests.model_upstream.golden import Golden, Truth, data
from tests.model_upstream.upstream import (
    Break,
    Play,
    Stall,
    Upstream,
    an_upstream,
    answering,
    broken_at,
    failing,
    in_pieces,
    streaming,
)
from tests.runtime.model_gateway.bench import CHAT, TENANT, House, open_house, tier
from tool_gateway.upstreams import http1

pytestmark = pytest.mark.anyio

COST = Unit.COST_MICROUSD
TEXT = next(golden for golden in GOLDENS if golden.name == "text")
SILENT = next(golden for golden in GOLDENS if golden.name == "no usage")
named = pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)


@asynccontextmanager
async def house_and_upstream(**terms: Any) -> AsyncIterator[tuple[House, Upstream]]:
    async with an_upstream() as upstream, open_house(base_url=upstream.base_url, **terms) as house:
        house.budget(cost_microusd=1_000_000_000)
        yield house, upstream


async def ask(house: House, golden: Golden, **more: object) -> httpx.Response:
    return await house.client.post(CHAT, json={**golden.request, **more})


def cost_of(truth: Truth) -> int:
    return truth.input_tokens + 2 * truth.output_tokens


@named
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_a_stream_is_relayed_byte_for_byte_however_it_comes(
    golden: Golden, size: int
) -> None:
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(in_pieces(golden.content, size))
            response = await ask(house, golden)
            spent = await house.ledger.spent()

    if golden.reports:
        assert response.content == golden.content
        assert spent == (cost_of(golden.truth), 0)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["flyball-call"] == house.record.call_id
    assert response.headers["flyball-tier"] == "low"
    assert json.loads(response.headers["flyball-budget"])[0]["budget_id"] == "money"
    assert house.record.status is CallStatus.OK
    assert spent[1] == 0


async def test_each_event_leaves_before_the_next_one_comes() -> None:
    may_go_on = [anyio.Event() for _ in TEXT.events]
    steps: list[object] = []
    for event, go in zip(TEXT.events, may_go_on, strict=True):
        steps += [event, Stall(until=go)]

    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(Play(steps=tuple(steps), content_type="text/event-stream"))
            async with client(house, TEXT) as reader:
                for event, go in zip(TEXT.events, may_go_on, strict=True):
                    assert await reader.event() == event
                    go.set()


async def test_usage_that_only_we_asked_for_is_not_relayed() -> None:
    *said, last, done = TEXT.events
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming(TEXT.events), streaming(TEXT.events))
            plain = await ask(house, TEXT, stream_options=None)
            options = {"include_usage": False, "include_obfuscation": False}
            refused = await ask(house, TEXT, stream_options=options)
            spent = await house.ledger.spent()

    assert b"prompt_tokens" in last
    assert plain.content == refused.content == b"".join((*said, done))
    assert upstream.received[0].body["stream_options"] == {"include_usage": True}
    assert upstream.received[1].body["stream_options"] == {**options, "include_usage": True}
    assert spent == (2 * cost_of(TEXT.truth), 0)


@pytest.mark.requirement("model.stream-cut-anywhere-is-settled")
async def test_a_stream_that_breaks_off_at_any_byte_is_ended_with_an_error_and_settled() -> None:
    reported_from = len(TEXT.content) - len(DONE)
    whole_from = reported_from - len(TEXT.events[-2])
    with anyio.fail_after(100):
        async with house_and_upstream() as (house, upstream):
            for place in range(1, len(TEXT.content)):
                before, _ = await house.ledger.spent()
                upstream.plays(broken_at(TEXT.content, place))
                response = await ask(house, TEXT)
                after, held = await house.ledger.spent()

                estimate = house.record.estimate.of(COST)
                # The usage is known from the last byte of its event on.
                known = place >= reported_from
                assert held == 0
                if known:
                    assert after - before == cost_of(TEXT.truth)
                else:
                    truth = TEXT.truth.input_tokens + 2 * written_by(TEXT, place)
                    assert truth < after - before <= estimate
                relayed = whole_events(TEXT, place)
                if place >= whole_from:
                    assert response.content == relayed
                elif relayed:
                    assert response.content.startswith(relayed)
                    error = json.loads(response.content[len(relayed) :].removeprefix(b"data: "))
                    assert error["error"]["code"] == "provider_failed"
                else:
                    assert response.status_code == 502
                    assert response.json()["error"]["code"] == "provider_failed"


def written_by(golden: Golden, place: int) -> int:
    """Return how many tokens a model had written for the events that are whole by then."""
    count = whole_events(golden, place).count(b"\n\n")
    return golden.written[count - 1] if count else 0


def whole_events(golden: Golden, place: int) -> bytes:
    """Return the events that are whole after so many bytes."""
    relayed = b""
    for event in golden.events:
        if len(relayed) + len(event) > place:
            break
        relayed += event
    return relayed


@pytest.mark.requirement("model.client-leaves-is-settled")
@pytest.mark.parametrize("place", range(len(TEXT.events)))
async def test_a_client_that_leaves_after_any_event_stops_the_provider_and_is_charged(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "ATTEND_AFTER_SECONDS", 0)
    never = anyio.Event()
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming(TEXT.events[:place], Stall(until=never)))
            async with client(house, TEXT) as reader:
                for event in TEXT.events[:place]:
                    assert await reader.event() == event
                if not place:
                    await upstream.arrived.wait()
            await upstream.left.wait()
            used, held = await house.ledger.spent()

    is_reported = place == len(TEXT.events) - 1
    assert held == 0
    if is_reported:
        assert used == cost_of(TEXT.truth)
    else:
        written = TEXT.written[place - 1] if place else 0
        assert TEXT.truth.input_tokens + 2 * written < used <= house.record.estimate.of(COST)
    assert house.record.status is CallStatus.CANCELLED
    assert len(house.running) == 0


async def test_a_client_that_leaves_with_the_whole_answer_has_had_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(front, "ATTEND_AFTER_SECONDS", 0)
    monkeypatch.setattr(http1, "DRAIN_SECONDS_MAX", 30)
    never = anyio.Event()
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming(TEXT.events, Stall(until=never)))
            async with client(house, TEXT) as reader:
                for event in TEXT.events:
                    assert await reader.event() == event
            await upstream.left.wait()
            used, held = await house.ledger.spent()

    assert (used, held) == (cost_of(TEXT.truth), 0)
    assert house.record.status is CallStatus.OK


@pytest.mark.requirement("model.stream-cut-at-ceiling")
async def test_a_stream_is_cut_where_what_is_held_for_it_ends() -> None:
    # No token of any model is longer, so each of these is one at the least.
    words = [data(chunk({"content": f"{number:>{TOKEN_BYTES_MAX}}"})) for number in range(100)]
    never = anyio.Event()
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming(words, Stall(until=never)))
            response = await ask(house, TEXT, max_tokens=5)
            await upstream.left.wait()
            used, held = await house.ledger.spent()

    relayed = b"".join(words[:5])
    assert response.content.startswith(relayed)
    ending = response.content[len(relayed) :]
    assert ending.endswith(DONE)
    last = json.loads(ending.split(b"\n\n")[0].removeprefix(b"data: "))
    assert last["id"] == chunk()["id"]
    assert last["choices"] == [
        {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}
    ]
    assert house.record.status is CallStatus.LIMIT_HIT
    assert held == 0
    # The sixth was written, whoever got it.
    assert used == house.record.estimate.of(COST) + 2


@pytest.mark.requirement("model.stream-cut-only-where-proven")
async def test_a_stream_in_pieces_smaller_than_tokens_is_not_cut_for_their_number() -> None:
    events = [data(chunk({"content": character})) for character in "Hello there, dear reader."]
    events.append(data(chunk({}, finish="stop")))
    events.append(data(chunk(usage=usage(Truth(input_tokens=9, output_tokens=7)))))
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming([*events, DONE]))
            response = await ask(house, TEXT, max_tokens=10)
            spent = await house.ledger.spent()

    assert response.content == b"".join([*events, DONE])
    assert spent == (9 + 2 * 7, 0)


async def test_usage_above_the_ceiling_at_the_end_of_an_answer_is_an_overrun() -> None:
    events = [
        data(chunk({"content": "hello"})),
        data(chunk({}, finish="stop")),
        data(chunk(usage=usage(Truth(input_tokens=9, output_tokens=50)))),
        DONE,
    ]
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming(events))
            response = await ask(house, TEXT, max_tokens=5)
            spent = await house.ledger.spent()

    assert response.content == b"".join(events)
    assert spent == (9 + 2 * 50, 0)


@pytest.mark.parametrize(
    ("event", "code", "is_relayed"),
    [
        (b'data: {"error": {"message": "overloaded"}}\n\n', None, True),
        (b"data: {oh no\n\n", "provider_failed", False),
        (b"data: 7\n\n", "provider_failed", False),
        (b"data: \xff\n\n", "provider_failed", False),
    ],
)
async def test_a_stream_that_goes_wrong_ends_with_an_error_and_is_charged_for_what_came(
    event: bytes, code: str | None, *, is_relayed: bool
) -> None:
    good, never = TEXT.events[1], anyio.Event()
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming((good, event), Stall(until=never)))
            response = await ask(house, TEXT)
            await upstream.left.wait()
            spent = await house.ledger.spent()

    assert response.content.startswith(good)
    rest = response.content[len(good) :]
    assert (rest == event) is is_relayed
    assert json.loads(rest.removeprefix(b"data: "))["error"].get("code") == code
    assert house.record.status is CallStatus.UPSTREAM_FAILED
    assert house.record.usage_source == "bound"
    assert 0 < spent[0] <= house.record.estimate.of(COST)
    assert spent[1] == 0


async def test_what_carries_nothing_is_relayed_and_a_missing_end_is_no_fault() -> None:
    comment = b": keep-alive\n\n"
    said = (comment, *TEXT.events[:-1])
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming(said))
            response = await ask(house, TEXT)
            spent = await house.ledger.spent()

    assert response.content == b"".join(said)
    assert house.record.status is CallStatus.OK
    assert spent == (cost_of(TEXT.truth), 0)


async def test_a_stream_that_ends_in_the_middle_is_no_whole_answer() -> None:
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming(TEXT.events[:3]))
            response = await ask(house, TEXT)

    assert response.content.startswith(b"".join(TEXT.events[:3]))
    assert b"broke off" in response.content
    assert house.record.status is CallStatus.UPSTREAM_FAILED


async def test_a_refusal_of_a_stream_is_an_answer_of_its_own() -> None:
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(failing(400, {"error": {"message": "no", "code": "theirs"}}))
            response = await ask(house, TEXT)
            spent = await house.ledger.spent()

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "theirs"
    assert spent == (0, 0)


async def test_a_whole_answer_to_a_streamed_request_is_relayed_whole() -> None:
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(answering({"choices": [], "usage": usage(TEXT.truth)}))
            response = await ask(house, TEXT)
            spent = await house.ledger.spent()

    assert response.status_code == 200
    assert response.json()["flyball"]["tier"] == "low"
    assert spent == (cost_of(TEXT.truth), 0)


@pytest.mark.parametrize("place", [0, 3])
async def test_a_provider_that_falls_silent_is_given_up(place: int) -> None:
    # Only what is to run out is short: what comes before takes its time on a busy machine.
    first_ms, between_ms = (50, 60_000) if place == 0 else (60_000, 1_000)
    times = Timeouts(whole_ms=60_000, first_ms=first_ms, between_ms=between_ms)
    never = anyio.Event()
    with anyio.fail_after(60):
        async with house_and_upstream(timeouts=times) as (house, upstream):
            upstream.plays(streaming(TEXT.events[:place], Stall(until=never)))
            response = await ask(house, TEXT)
            await upstream.left.wait()

    assert response.content.startswith(b"".join(TEXT.events[:place]))
    assert (response.status_code == 504) is (place == 0)
    assert b"provider_timed_out" in response.content
    assert house.record.status is CallStatus.TIMED_OUT


async def test_ending_a_session_ends_its_stream_with_the_reason_and_settles_it() -> None:
    never = anyio.Event()
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming(TEXT.events[:3], Stall(until=never)))
            async with client(house, TEXT) as reader:
                for event in TEXT.events[:3]:
                    assert await reader.event() == event
                [session] = house.ledger._sessions
                house.running.stop_session(session, why="an administrator ended it")
                last = json.loads((await reader.event()).removeprefix(b"data: "))
                assert await reader.event() == b""
            await upstream.left.wait()
            spent = await house.ledger.spent()

    assert last["error"]["type"] == "flyball_stopped"
    assert "an administrator ended it" in last["error"]["message"]
    assert house.record.status is CallStatus.CANCELLED
    assert house.record.detail == "an administrator ended it"
    assert cost_of(Truth(input_tokens=9, output_tokens=2)) < spent[0]
    assert spent[0] <= house.record.estimate.of(COST)
    assert spent[1] == 0


async def test_our_key_is_not_shown_in_a_stream() -> None:
    quoting = data(chunk({"content": "sk-provider-0123456789abcdef"}))
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming((quoting, *TEXT.events)))
            response = await ask(house, TEXT)

    assert b"sk-provider" not in response.content
    assert b"[redacted]" in response.content


async def test_a_stream_of_one_endless_event_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.model_gateway.streams.events.EVENT_BYTES_MAX", 1_000)
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming((TEXT.events[0], b"data: " + b"x" * 2_000), Break()))
            response = await ask(house, TEXT)

    assert response.content.startswith(TEXT.events[0])
    assert b"more than 1000 bytes" in response.content
    assert house.record.status is CallStatus.UPSTREAM_FAILED


class Reader:
    """A client of the application that reads event by event."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._bodies, self._sent = anyio.create_memory_object_stream[bytes](1_000)
        self._was_read = False
        self._unread = b""
        self.gone = anyio.Event()

    async def receive(self) -> Message:
        if not self._was_read:
            self._was_read = True
            return {"type": "http.request", "body": self._content, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and message.get("body"):
            await self._bodies.send(message["body"])
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self._bodies.close()

    async def event(self) -> bytes:
        """Return the next event; b"" after the last."""
        while b"\n\n" not in self._unread:
            try:
                self._unread += await self._sent.receive()
            except anyio.EndOfStream:
                return b""
        event, _, self._unread = self._unread.partition(b"\n\n")
        return event + b"\n\n"

    def close(self) -> None:
        self._bodies.close()
        self._sent.close()


@asynccontextmanager
async def client(house: House, golden: Golden) -> AsyncIterator[Reader]:
    """Yield a reader of a stream; leaving the block, it goes away and waits for the end."""
    reader = Reader(json.dumps(golden.request).encode())
    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.app, scope, reader.receive, reader.send)
        yield reader
        reader.gone.set()
    reader.close()
    assert house.ledger.records[-1].chain.tenant == TENANT


async def test_a_tier_caps_a_stream_like_any_answer() -> None:
    with anyio.fail_after(60):
        async with house_and_upstream(tiers=(tier(output_tokens_max=3),)) as (house, upstream):
            upstream.plays(streaming(SILENT.events))
            await ask(house, SILENT)

    assert upstream.received[0].body["max_completion_tokens"] == 3
