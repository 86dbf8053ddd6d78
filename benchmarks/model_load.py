"""One load generator for chat completions, in a process of its own: whole answers or streams.

A closed loop of so many callers, each on a connection of its own. Every answer must hold the
word of its own request and the usage; a stream must hold all of its words and its end. It
reads HTTP by itself, which costs less than what it measures, and prints one JSON object.
"""

import argparse
import asyncio
import itertools
import json
import re
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from model_upstream import WORDS

ANSWER_SECONDS_MAX = 60
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection:\s*close", re.IGNORECASE)
_USAGE = re.compile(rb'"total_tokens":\s*\d')
_WORD = re.compile(rb"\btok\d+ ")
_SYSTEM = "You are a helpful coding agent."
_ASKED = "List the files in the repository and explain what main.py does, briefly."


@dataclass
class Answered:
    """What came back, and when; `first_s` is when the first token was there."""

    content: bytes
    first_s: float
    last_s: float


class Connection(asyncio.Protocol):
    """One connection with one request under way."""

    def __init__(self) -> None:
        """Wait to be connected."""
        self._done: asyncio.Future[Answered] | None = None
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_open = transport, True

    async def ask(self, request: bytes, mark: bytes) -> Answered:
        """Return the answer to a request, however it is framed."""
        self._mark, self._read, self._first_s = mark, bytearray(), 0.0
        self._body_at, self._length = 0, -1
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await self._done

    def data_received(self, data: bytes) -> None:
        """Note when the first token came, and when the answer is whole."""
        now_s = time.perf_counter()
        self._read += data
        if not self._body_at:
            end = self._read.find(b"\r\n\r\n")
            if end < 0:
                return
            self._body_at = end + 4
            length = _LENGTH.search(self._read, 0, self._body_at)
            self._length = -1 if length is None else int(length[1])
        if not self._first_s and self._mark in self._read:
            self._first_s = now_s
        if self._length >= 0:
            if len(self._read) - self._body_at >= self._length:
                self._end(now_s)
        elif self._read.endswith(b"0\r\n\r\n"):
            self._end(now_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is under way."""
        self.is_open = False
        if self._done is not None and not self._done.done():
            self._end(time.perf_counter())

    def _end(self, now_s: float) -> None:
        if _CLOSES.search(self._read, 0, self._body_at):
            self.is_open = False
            self._transport.close()
        assert self._done is not None
        if not self._done.done():
            self._done.set_result(Answered(bytes(self._read), self._first_s, now_s))


@dataclass
class Caller:
    """One client."""

    number: int
    options: argparse.Namespace
    head: str
    connection: Connection = field(default_factory=Connection)
    samples_ms: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def call(self, at: int) -> None:
        """Make one request and note how long its answer took, or what was wrong with it."""
        mark = f"m{self.number}x{at}y"
        request = self._request(mark)
        if not self.connection.is_open:
            where = urlsplit(self.options.url)
            loop = asyncio.get_running_loop()
            _, self.connection = await loop.create_connection(
                Connection, where.hostname, where.port
            )
        began_s = time.perf_counter()
        try:
            answered = await self.connection.ask(request, mark.encode())
        except TimeoutError:
            self.errors.append(f"no answer within {ANSWER_SECONDS_MAX} s")
            self.connection.is_open = False
            return
        fault = _fault(answered.content, mark.encode(), is_streamed=self.options.stream)
        if fault:
            self.errors.append(fault)
            return
        self.samples_ms.append((answered.last_s - began_s) * 1000)
        self.first_ms.append((answered.first_s - began_s) * 1000)

    def _request(self, mark: str) -> bytes:
        more = f" pace {self.options.pace}" if self.options.pace else ""
        more += f" cost {self.options.cost}" if self.options.cost else ""
        fields: dict[str, object] = {
            "model": "gpt-4o-mini",
            "messages": [
                {"role": "system", "content": _SYSTEM},
                {"role": "user", "content": f"{_ASKED} {mark}{more}"},
            ],
            "max_tokens": self.options.tokens_max,
        }
        if self.options.stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        body = json.dumps(fields)
        return f"{self.head}content-length: {len(body)}\r\n\r\n{body}".encode()

    async def run(self, until_s: float) -> None:
        """Call again and again, or the number of times that was asked for."""
        for at in itertools.count(1):
            if at > self.options.times or time.perf_counter() >= until_s:
                return
            await self.call(at)


def _fault(content: bytes, mark: bytes, *, is_streamed: bool) -> str:
    """Return what is wrong with an answer, "" if nothing is."""
    head, _, body = content.partition(b"\r\n\r\n")
    if _CHUNKED.search(head + b"\r\n"):
        body = _joined(body)
    if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
        return f"{head[:40]!r}: {body[:300]!r}"
    if mark not in body or not _USAGE.search(body):
        return f"not its own answer, or without usage: {body[:300]!r}"
    if is_streamed:
        words = len(_WORD.findall(body))
        if words != WORDS - 1 or b"data: [DONE]" not in body:
            return f"a stream of {words} words that ends with {body[-100:]!r}"
    return ""


def _joined(body: bytes) -> bytes:
    """Return what the chunks of a transfer hold."""
    parts: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at)
        size = int(body[at:end], 16) if end > at else 0
        if not size:
            return b"".join(parts)
        parts.append(body[end + 2 : end + 2 + size])
        at = end + 4 + size


async def main() -> None:
    """Print what was measured."""
    options = _options()
    where = urlsplit(options.url)
    lines = [f"POST {where.path} HTTP/1.1", f"host: {where.netloc}"]
    lines += ["content-type: application/json", "accept: */*", *options.header]
    head = "".join(f"{line}\r\n" for line in lines)
    callers = [Caller(at, options, head) for at in range(options.callers)]
    if not options.cold:
        await asyncio.gather(*(caller.call(0) for caller in callers))
    warmed = sum(len(caller.samples_ms) for caller in callers)
    for caller in callers:
        caller.samples_ms.clear()
        caller.first_ms.clear()
    began_s = time.perf_counter()
    await asyncio.gather(*(caller.run(began_s + options.seconds) for caller in callers))
    took_s = time.perf_counter() - began_s
    errors = [error for caller in callers for error in caller.errors]
    print(
        json.dumps(
            {
                "samples_ms": [sample for caller in callers for sample in caller.samples_ms],
                "first_ms": [sample for caller in callers for sample in caller.first_ms],
                "took_s": took_s,
                "warmed": warmed,
                "errors": len(errors),
                "error": errors[0] if errors else "",
            }
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--header", action="append", default=[])
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--cold", action="store_true", help="no call before the clock starts")
    parser.add_argument("--pace", type=int, default=0, help="milliseconds between events")
    parser.add_argument("--cost", type=int, default=0, help="output tokens of each answer")
    parser.add_argument("--tokens-max", type=int, default=64)
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--times", type=int, default=2**31, help="calls of each caller at most")
    parser.add_argument("--seconds", type=float, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
