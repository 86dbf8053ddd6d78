"""One load generator for `tools/call` over streamable HTTP, in a process of its own.

A closed loop of so many callers; every answer must hold the text that was sent. It uses the
house's own connections, which cost less than what they measure, and prints one JSON object.
"""

import argparse
import asyncio
import itertools
import json
import time
from dataclasses import dataclass, field
from http import HTTPStatus

from tool_gateway.errors import UpstreamError
from tool_gateway.upstreams.http1 import ConnectionPool
from tool_gateway.upstreams.origin import Origin, origin_of

MODERN, LEGACY = "2026-07-28", "2025-06-18"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PAYLOAD = "x" * 32


@dataclass
class Caller:
    """One client, with a session of its own in the older era."""

    name: str
    origin: Origin
    pool: ConnectionPool
    options: argparse.Namespace
    headers: dict[str, str] = field(default_factory=dict)
    samples_ms: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def post(self, message: dict[str, object]) -> tuple[int, dict[bytes, bytes], bytes]:
        """Return status, headers and body of the answer to a message."""
        body = json.dumps(message).encode()
        lines = {
            "host": self.origin.host_header,
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "content-length": str(len(body)),
            **self.headers,
        }
        head = f"POST {self.origin.path} HTTP/1.1\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
        async with self.pool.sent(head.encode(), body) as response:
            content = await response.read(64 * 1024 * 1024)
            return response.status, dict(response.headers), content

    async def open(self) -> None:
        """Take the headers that every call has, after the handshake of the older era."""
        self.headers.update(header.split(": ", 1) for header in self.options.header)
        if self.options.era == "modern":
            self.headers |= {
                "mcp-protocol-version": MODERN,
                "mcp-method": self.options.method,
                "mcp-name": self.options.tool,
            }
            if self.options.method == "tools/list":
                del self.headers["mcp-name"]
            return
        who = {"name": "load", "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": who}
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        _, headers, content = await self.post(hello)
        assert b"protocolVersion" in content, content[:200]
        self.headers["mcp-protocol-version"] = LEGACY
        if b"mcp-session-id" in headers:
            self.headers["mcp-session-id"] = headers[b"mcp-session-id"].decode()
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, number: int) -> None:
        """Make one request and note how long its answer took, or what was wrong with it."""
        text = f"{self.name}-{number}-{PAYLOAD}"
        params: dict[str, object] = {}
        if self.options.method == "tools/call":
            params = {"name": self.options.tool, "arguments": {"text": text}}
        if self.options.era == "modern":
            params["_meta"] = META
        message = {
            "jsonrpc": "2.0",
            "id": number,
            "method": self.options.method,
            "params": params,
        }
        began = time.perf_counter()
        try:
            status, _, content = await self.post(message)
        except UpstreamError as error:
            self.errors.append(str(error))
            return
        took_ms = (time.perf_counter() - began) * 1000
        expected = self.options.expect or text
        if (
            status == HTTPStatus.OK
            and expected.encode() in content
            and b'"isError":true' not in content
        ):
            self.samples_ms.append(took_ms)
        else:
            self.errors.append(f"HTTP {status}: {content[:200]!r}")

    async def run(self, until: float) -> None:
        """Call again and again: so often, or until then."""
        for number in itertools.count(1):
            if number > self.options.calls if self.options.calls else time.perf_counter() >= until:
                return
            await self.call(number)


async def main() -> None:
    """Print what was measured."""
    options = _options()
    origin = origin_of(options.url)
    assert origin is not None, options.url
    pool = ConnectionPool("gateway", origin)
    callers = [Caller(str(at), origin, pool, options) for at in range(options.callers)]
    for caller in callers:
        await caller.open()
        await caller.call(0)
    first = sum(len(caller.samples_ms) for caller in callers)
    for caller in callers:
        caller.samples_ms.clear()
    began = time.perf_counter()
    await asyncio.gather(*(caller.run(began + options.seconds) for caller in callers))
    took_s = time.perf_counter() - began
    samples = [sample for caller in callers for sample in caller.samples_ms]
    errors = [error for caller in callers for error in caller.errors]
    said = {"samples_ms": samples, "took_s": took_s, "errors": errors[:3], "first": first}
    print(json.dumps(said))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--era", choices=["modern", "legacy"], default="modern")
    parser.add_argument("--method", default="tools/call")
    parser.add_argument("--tool", default="echo")
    parser.add_argument("--expect", default="")
    parser.add_argument("--header", action="append", default=[])
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--calls", type=int, default=0, help="of each caller, instead of seconds")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
