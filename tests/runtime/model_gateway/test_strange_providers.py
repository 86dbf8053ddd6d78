"""Providers that speak HTTP badly, slowly, or hang up: each call ends, and its hold with it."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from governor.amounts import Unit
from governor.call import CallStatus
from runtime.model_gateway.providers.spec import Timeouts
from tests.runtime.model_gateway.bench import completion, open_house
from tool_gateway.upstreams.http1 import UNREAD_BYTES_MAX

pytestmark = pytest.mark.anyio

BODY = json.dumps(completion()).encode()


def answer(body: bytes = BODY, *, length: int | None = None, head: bytes = b"") -> bytes:
    said = len(body) if length is None else length
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b"
        % (head, said, body)
    )


@dataclass
class Raw:
    """A server that writes bytes; `hangs_up` tells after which of its answers it closes."""

    answers: list[bytes]
    hangs_up: Callable[[int], bool] = lambda _: True
    pause: Callable[[], float] = lambda: 0.0
    port: int = 0
    requests: int = 0
    connections: int = 0
    gone: list[anyio.Event] = field(default_factory=list)

    async def serve(self, stream: SocketStream) -> None:
        self.connections += 1
        async with stream:
            try:
                while True:
                    taken = b""
                    while not taken.endswith(b"}"):
                        taken += await stream.receive()
                    self.requests += 1
                    content = self.answers[min(self.requests, len(self.answers)) - 1]
                    await self._write(stream, content)
                    if self.hangs_up(self.requests):
                        return
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                """The client had enough."""

    async def _write(self, stream: SocketStream, content: bytes) -> None:
        if not self.pause():
            await stream.send(content)
            return
        for at in range(len(content)):
            await stream.send(content[at : at + 1])
            await anyio.sleep(self.pause())


@asynccontextmanager
async def serving(raw: Raw) -> AsyncIterator[str]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    raw.port = listener.extra(SocketAttribute.local_port)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, raw.serve)
        try:
            yield f"http://127.0.0.1:{raw.port}/v1"
        finally:
            tasks.cancel_scope.cancel()
    await listener.aclose()


STRANGE = {
    "nothing at all": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.9\r\n",
    "half a status line": b"HTTP/1.1 2",
    "a status that is no number": b"HTTP/1.1 two hundred\r\n\r\n",
    "a head without an end": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n",
    "a head that is too large": b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 200_000 + b"\r\n\r\n",
    "two lengths": answer(head=b"content-length: 3\r\n"),
    "a length that is no number": b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
    "less than was announced": answer(length=len(BODY) + 10),
    "chunks that are none": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello",
    "a compressed answer": answer(head=b"content-encoding: gzip\r\n"),
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n",
    "no JSON": answer(b"<html>login</html>"),
    "an answer without choices": answer(b'{"object":"chat.completion"}'),
}


@pytest.mark.parametrize("content", STRANGE.values(), ids=STRANGE.keys())
async def test_an_answer_that_cannot_be_read_is_charged_as_held_and_said(content: bytes) -> None:
    raw = Raw(answers=[content])
    with anyio.fail_after(60):
        async with serving(raw) as base_url, open_house(base_url=base_url) as house:
            house.budget(cost_microusd=1_000_000)
            response = await house.chat()
            held = house.record.estimate.of(Unit.COST_MICROUSD)

            assert await house.ledger.spent() == (held, 0)

    assert response.status_code == 502
    assert response.json()["error"]["code"] == "provider_failed"
    assert house.record.status is CallStatus.UPSTREAM_FAILED
    assert raw.requests == 1


async def test_a_kept_connection_that_the_provider_closed_is_not_used_again() -> None:
    raw = Raw(answers=[answer()], hangs_up=lambda _: True)
    with anyio.fail_after(60):
        async with serving(raw) as base_url, open_house(base_url=base_url) as house:
            house.budget(cost_microusd=1_000_000)
            statuses = [(await house.chat()).status_code for _ in range(3)]

    assert statuses == [200, 200, 200]
    assert (raw.requests, raw.connections) == (3, 3)


async def test_a_connection_that_is_kept_is_used_again() -> None:
    raw = Raw(answers=[answer()], hangs_up=lambda _: False)
    with anyio.fail_after(60):
        async with serving(raw) as base_url, open_house(base_url=base_url) as house:
            house.budget(cost_microusd=1_000_000)
            statuses = [(await house.chat()).status_code for _ in range(3)]

    assert statuses == [200, 200, 200]
    assert (raw.requests, raw.connections) == (3, 1)


async def test_answers_longer_than_what_is_read_ahead_follow_each_other_on_one_connection() -> None:
    message = {"role": "assistant", "content": "x" * 2 * UNREAD_BYTES_MAX}
    large = completion(choices=[{"index": 0, "message": message}])
    raw = Raw(answers=[answer(json.dumps(large).encode())], hangs_up=lambda _: False)
    with anyio.fail_after(60):
        async with serving(raw) as base_url, open_house(base_url=base_url) as house:
            house.budget(cost_microusd=10_000_000)
            answered = [await house.chat() for _ in range(3)]

    assert [response.status_code for response in answered] == [200, 200, 200]
    assert all(response.json()["choices"] == large["choices"] for response in answered)
    assert (raw.requests, raw.connections) == (3, 1)


async def test_a_second_answer_to_one_request_is_not_taken_for_the_next_one() -> None:
    raw = Raw(answers=[answer() + answer(b'{"stray": true}'), answer()], hangs_up=lambda _: False)
    with anyio.fail_after(60):
        async with serving(raw) as base_url, open_house(base_url=base_url) as house:
            house.budget(cost_microusd=1_000_000)
            first, second = await house.chat(), await house.chat()
            _, held = await house.ledger.spent()

    # Where the two come at once nobody can tell which of them is the answer.
    assert first.status_code in {200, 502}
    assert second.status_code == 200
    assert "stray" not in second.text
    assert held == 0


async def test_hints_before_the_answer_are_passed_over() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    raw = Raw(answers=[early + answer()])
    with anyio.fail_after(60):
        async with serving(raw) as base_url, open_house(base_url=base_url) as house:
            house.budget(cost_microusd=1_000_000)
            response = await house.chat()

    assert response.status_code == 200


@pytest.mark.requirement("model.time-is-bounded")
async def test_an_answer_that_trickles_ends_with_the_time_of_the_call() -> None:
    raw = Raw(answers=[answer()], pause=lambda: 0.02)
    with anyio.fail_after(60):
        async with (
            serving(raw) as base_url,
            open_house(base_url=base_url, timeouts=Timeouts(whole_ms=1_000)) as house,
        ):
            house.budget(cost_microusd=1_000_000)
            response = await house.chat()
            held = house.record.estimate.of(Unit.COST_MICROUSD)

            assert await house.ledger.spent() == (held, 0)

    assert response.status_code == 504
    assert house.record.status is CallStatus.TIMED_OUT
