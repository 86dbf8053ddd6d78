"""Governed tool calls in a closed loop, timed from the first byte to the last of the answer."""

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from runtime.clock import SystemClock
from runtime.errors import RuntimeFaultError
from tool_gateway.errors import UpstreamError
from tool_gateway.upstreams.http1 import ConnectionPool
from tool_gateway.upstreams.origin import Origin, origin_of

_PROTOCOL = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": _PROTOCOL,
    "io.modelcontextprotocol/clientInfo": {"name": "flyball-bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_ANSWER_BYTES_MAX = 16 * 1024 * 1024
_FAULTS_MAX = 3
_SHOWN_CHARS = 200
_NS_PER_MS = 1_000_000
_PERCENTILES = {"p50_ms": 0.50, "p90_ms": 0.90, "p99_ms": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is called, where, as whom and how often."""

    url: str
    token: str
    session: str
    tool: str
    arguments: Mapping[str, object]
    calls: int
    callers: int


@dataclass(slots=True, kw_only=True)
class Outcome:
    """How the calls ended; only those that ran are timed."""

    callers: int
    samples_ns: list[int] = field(default_factory=list)
    denied: int = 0
    failed: int = 0
    faults: list[str] = field(default_factory=list)
    took_ns: int = 0

    def shape(self) -> dict[str, object]:
        """Return the figures as JSON has them; None where nothing ran."""
        ran = len(self.samples_ns)
        took_s = self.took_ns / _NS_PER_MS / 1_000
        return {
            "callers": self.callers,
            "calls": ran,
            "denied": self.denied,
            "failed": self.failed,
            "faults": self.faults,
            "took_s": round(took_s, 3),
            "per_second": round(ran / took_s, 1) if took_s else None,
            **{name: percentile_ms(self.samples_ns, share) for name, share in _PERCENTILES.items()},
            "max_ms": percentile_ms(self.samples_ns, 1.0),
        }


def percentile_ms(samples_ns: Sequence[int], share: float) -> float | None:
    """Return the time that so large a share of the samples did not exceed (nearest rank)."""
    if not samples_ns:
        return None
    ordered = sorted(samples_ns)
    at = max(0, -int(-share * len(ordered) // 1) - 1)
    return round(ordered[at] / _NS_PER_MS, 3)


async def load(work: Work, *, done: Callable[[], None]) -> Outcome:
    """Return how so many calls of so many callers ended.

    Raises:
        RuntimeFaultError: no sidecar answers at all.
    """
    origin = origin_of(work.url)
    if origin is None:
        raise RuntimeFaultError(f"{work.url} is no address of a sidecar")
    outcome = Outcome(callers=work.callers)
    pool = ConnectionPool("sidecar", origin)
    clock = SystemClock()
    try:
        # The first call of each connection pays for it, and is not counted.
        await asyncio.gather(*(_call(pool, origin, work) for _ in range(work.callers)))
        left = iter(range(work.calls))

        async def caller() -> None:
            for _ in left:
                began = clock.elapsed_ns()
                fault = await _call(pool, origin, work)
                took = clock.elapsed_ns() - began
                _count(outcome, fault, took)
                done()

        began = clock.elapsed_ns()
        await asyncio.gather(*(caller() for _ in range(work.callers)))
        outcome.took_ns = clock.elapsed_ns() - began
    except UpstreamError as error:
        raise RuntimeFaultError(
            f"no sidecar answers at {work.url}: start one with `flyball up`, or add --temporary"
        ) from error
    finally:
        pool.close()
    return outcome


def _count(outcome: Outcome, fault: str | None, took_ns: int) -> None:
    if fault is None:
        outcome.samples_ns.append(took_ns)
        return
    if fault.startswith(_DENIED):
        outcome.denied += 1
    else:
        outcome.failed += 1
    if fault not in outcome.faults and len(outcome.faults) < _FAULTS_MAX:
        outcome.faults.append(fault)


_DENIED = "denied"


async def _call(pool: ConnectionPool, origin: Origin, work: Work) -> str | None:
    """Return why a call did not run, None if it did.

    Raises:
        UpstreamError: nobody answers.
    """
    message = {
        "jsonrpc": "2.0",
        "id": secrets.token_hex(8),
        "method": "tools/call",
        "params": {"name": work.tool, "arguments": dict(work.arguments), "_meta": _META},
    }
    body = json.dumps(message).encode()
    lines = {
        "host": origin.host_header,
        "authorization": f"Bearer {work.token}",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "flyball-session": work.session,
        "mcp-protocol-version": _PROTOCOL,
        "mcp-method": "tools/call",
        "mcp-name": work.tool,
    }
    head = f"POST {origin.path} HTTP/1.1\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    async with pool.sent(head.encode(), body) as response:
        content = await response.read(_ANSWER_BYTES_MAX)
        status = response.status
    return _fault(status, content)


def _fault(status: int, content: bytes) -> str | None:
    shown = content[:_SHOWN_CHARS].decode(errors="replace")
    if status != HTTPStatus.OK:
        return f"status {status}: {shown}"
    text = content.decode(errors="replace")
    if not text.startswith("{"):
        # A stream of events: the answer is its last.
        text = text.rpartition("data: ")[2]
    try:
        answer = json.loads(text)
    except ValueError:
        return f"no JSON: {shown}"
    if "error" in answer:
        return f"error: {answer['error'].get('message', '')}"
    result = answer["result"]
    denial = result.get("_meta", {}).get("flyball/denial")
    if denial is not None:
        return f"{_DENIED}: {denial['reason']}"
    return f"the tool failed: {shown}" if result.get("isError") else None
