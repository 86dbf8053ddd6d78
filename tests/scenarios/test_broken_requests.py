"""Requests that break off, contradict themselves or are coded, byte by byte at a real sidecar."""

import gzip
import json
from dataclasses import dataclass

import anyio
import pytest
from scenarios.process import SidecarProcess
from scenarios.test_bad_input import MODERN, post, still_serves

pytestmark = pytest.mark.anyio
ECHO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "worker__echo",
        "arguments": {"text": "never"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
BODY = json.dumps(ECHO).encode()
CALL = {**MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "worker__echo"}
HEADER_MISMATCH = -32_020
SECONDS_MAX = 60


def head(sidecar: SidecarProcess, *lines: str, path: str = "/mcp") -> bytes:
    own = [f"{name}: {value}" for name, value in CALL.items()]
    own += ["Host: 127.0.0.1", f"Authorization: Bearer {sidecar.token('agent')}", *lines]
    return "\r\n".join([f"POST {path} HTTP/1.1", *own, "", ""]).encode()


@dataclass(frozen=True)
class Broken:
    """What is sent after the usual headers; the statuses that may be answered, None for none.

    With `is_cut` the client says after it that it sends nothing more.
    """

    lines: tuple[str, ...]
    body: bytes
    statuses: frozenset[int | None]
    is_cut: bool = False


def broken(*lines: str, body: bytes, to: int | None, is_cut: bool = False) -> Broken:
    return Broken(lines, body, frozenset({to}), is_cut)


LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = "Transfer-Encoding: chunked"
CHUNK = b"%x\r\n%b\r\n" % (len(BODY), BODY)
BROKEN = {
    "a body that breaks off": broken(LENGTH, body=BODY[:-9], to=None, is_cut=True),
    "no body at all": broken(LENGTH, body=b"", to=None, is_cut=True),
    "a chunk that breaks off": broken(CHUNKED, body=CHUNK[:-9], to=None, is_cut=True),
    "no last chunk": broken(CHUNKED, body=CHUNK, to=None, is_cut=True),
    "a chunk whose size is none": broken(CHUNKED, body=b"xyz\r\n" + BODY, to=400),
    "a chunk of a negative size": broken(CHUNKED, body=b"-5\r\n" + BODY, to=400),
    "a chunk of a size beyond all bounds": broken(CHUNKED, body=b"f" * 17 + b"\r\n", to=400),
    "a length that is too short": broken(f"Content-Length: {len(BODY) - 9}", body=BODY, to=400),
    "a length and chunks": broken(LENGTH, CHUNKED, body=CHUNK, to=400),
    "two lengths": broken(LENGTH, "Content-Length: 3", body=BODY, to=400),
    "a negative length": broken("Content-Length: -1", body=BODY, to=400),
    "a length that is no number": broken("Content-Length: ten", body=BODY, to=400),
    "a length beyond all bounds": broken(f"Content-Length: {10**30}", body=BODY, to=400),
    "an unknown transfer coding": broken("Transfer-Encoding: gzip", body=BODY, to=400),
    "a header without a colon": broken("Nonsense", body=BODY, to=400),
    "a header with a nul": broken("X: a\0b", body=BODY, to=400),
    "a header that is folded": broken("X: a\r\n b", LENGTH, body=BODY, to=400),
    "headers that are too large": broken(f"X: {'y' * 70_000}", LENGTH, body=BODY, to=400),
    "another host": broken("Host: evil.example", LENGTH, body=BODY, to=421),
    "a body that is gzip": broken(
        "Content-Encoding: gzip",
        f"Content-Length: {len(gzip.compress(BODY, mtime=0))}",
        body=gzip.compress(BODY, mtime=0),
        to=415,
    ),
}


async def answered(sidecar: SidecarProcess, sent: bytes, *, is_cut: bool) -> bytes:
    """Return all that a connection is answered with until it is closed, or has been answered."""
    port = int(sidecar.urls["agents"].rpartition(":")[2].partition("/")[0])
    said = b""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        try:
            await stream.send(sent)
            if is_cut:
                await stream.send_eof()
            while is_cut or b"\r\n\r\n" not in said:
                said += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
    return said


@pytest.mark.requirement("input.broken-requests")
@pytest.mark.parametrize("path", ["/mcp", "/v1/chat/completions"])
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_request_is_refused_and_nothing_runs_or_is_held(
    shared_sidecar: SidecarProcess, name: str, path: str
) -> None:
    one = BROKEN[name]
    sent = head(shared_sidecar, *one.lines, path=path) + one.body

    with anyio.fail_after(SECONDS_MAX):
        said = await answered(shared_sidecar, sent, is_cut=one.is_cut)

    status = int(said.split()[1]) if said else None
    assert status in one.statuses, said[:300]
    async with shared_sidecar.admin() as admin:
        calls = (await admin.get("calls", params={"name": "worker__echo"})).json()["items"]
    assert all("never" not in call["arguments"] for call in calls)
    assert all(balance["reserved"] == 0 for balance in await shared_sidecar.balances())
    assert await still_serves(shared_sidecar)
    assert "Traceback" not in shared_sidecar.log()


@pytest.mark.requirement("input.broken-requests")
@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp-Name": "worker__big"},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Name": "worker__ech\u00f6"},
        {"MCP-Protocol-Version": "2026-07-28", "Mcp-Name": ""},
    ],
)
async def test_headers_that_deny_the_body_are_a_mismatch(
    shared_sidecar: SidecarProcess, headers: dict[str, str]
) -> None:
    wire = {name: value.encode() for name, value in {**CALL, **headers}.items()}

    answer = await post(shared_sidecar, BODY, **wire)  # type: ignore[arg-type]

    assert answer.status_code == 400
    assert (answer.json()["id"], answer.json()["error"]["code"]) == (1, HEADER_MISMATCH)
