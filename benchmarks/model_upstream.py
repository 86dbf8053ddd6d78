"""The model server that the model gateways stand in front of, as lean as asyncio allows.

It speaks OpenAI's chat completions, whole or streamed. Every answer holds the word `m…y` of its
own request, so that a mixed-up answer is found; `pace N` in a request spaces the events of its
answer by N milliseconds, and `cost N` has it report N output tokens.

model_upstream.py PORT
"""

import asyncio
import json
import re
import sys

INPUT_TOKENS, OUTPUT_TOKENS = 25, 20
WORDS = 20
_MARK = re.compile(rb"\bm\d+x\d+y\b")
_PACE = re.compile(rb"\bpace (\d+)\b")
_COST = re.compile(rb"\bcost (\d+)\b")
_STREAM = re.compile(rb'"stream"\s*:\s*true')
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
_CHUNK = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1_700_000_000,
    "model": "gpt-4o-mini",
}


def whole(mark: str, tokens: int) -> bytes:
    """Return the answer to a request that is not streamed, head included."""
    message = {"role": "assistant", "content": f"{mark} is what you said; this is the answer."}
    body = json.dumps(
        {
            **_CHUNK,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": _usage(tokens),
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def events(mark: str, tokens: int) -> list[bytes]:
    """Return the events of a streamed answer, each a chunk of the transfer."""
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f"{mark} " if not at else f"tok{at} "} for at in range(WORDS)]
    chunks = [_event([_choice(delta, None)]) for delta in deltas]
    chunks.append(_event([_choice({}, "stop")]))
    chunks.append(_event([], usage=_usage(tokens)))
    chunks.append(_framed(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    return chunks


def _choice(delta: dict[str, str], why: str | None) -> dict[str, object]:
    return {"index": 0, "delta": delta, "finish_reason": why}


def _usage(tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": INPUT_TOKENS,
        "completion_tokens": tokens,
        "total_tokens": INPUT_TOKENS + tokens,
    }


def _event(choices: list[dict[str, object]], **more: object) -> bytes:
    return _framed(
        b"data: " + json.dumps({**_CHUNK, "choices": choices, **more}).encode() + b"\n\n"
    )


def _framed(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


class Connection(asyncio.Protocol):
    """Answers one request after the other; its gateways do not pipeline."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to listen."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._read = b""
        self._task: asyncio.Task[None] | None = None

    def data_received(self, data: bytes) -> None:
        """Answer what is whole."""
        self._read += data
        end = self._read.find(b"\r\n\r\n")
        if end < 0:
            return
        head, body = self._read[:end], self._read[end + 4 :]
        length = _LENGTH.search(head)
        if length is not None:
            is_whole = len(body) >= int(length[1])
        else:
            is_whole = not _CHUNKED.search(head) or body.endswith(b"0\r\n\r\n")
        if is_whole:
            self._read = b""
            self._task = asyncio.get_running_loop().create_task(self._answer(body))

    async def _answer(self, body: bytes) -> None:
        found, pace, cost = _MARK.search(body), _PACE.search(body), _COST.search(body)
        mark = found[0].decode() if found else "none"
        pause_s = int(pace[1]) / 1000 if pace else 0
        tokens = int(cost[1]) if cost else OUTPUT_TOKENS
        if not _STREAM.search(body):
            if pause_s:
                await asyncio.sleep(pause_s)
            self._transport.write(whole(mark, tokens))
            return
        self._transport.write(_STREAM_HEAD)
        for event in events(mark, tokens):
            self._transport.write(event)
            await asyncio.sleep(pause_s)


async def main() -> None:
    """Serve until ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
