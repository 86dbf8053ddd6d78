"""HTTP to an upstream, with each transport failure kept to the one call that met it.

The SDK's client runs all calls of a connection in one task group: an exception from the
HTTP library in one of them ends the connection and every call beside it. So a failure is
answered here, as the JSON-RPC error of its own request.
"""

import json
import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus

import httpx2
from mcp.shared.exceptions import MCPError

from tool_gateway.egress.reach import Reach
from tool_gateway.egress.ways import Ways
from tool_gateway.errors import (
    EgressDeniedError,
    UpstreamFailedError,
    UpstreamNotReachedError,
    UpstreamRefusedError,
)
from tool_gateway.upstreams.bodies import SparingTransport
from tool_gateway.upstreams.guarded import GuardedTransport
from tool_gateway.upstreams.spec import ANSWER_BYTES_MAX

# Codes that no server uses (outside the range that the specification reserves); they carry
# to the caller whether anything of the request can have reached the upstream.
NOT_REACHED = -31_001
BROKE_OFF = -31_002
UNFIT = -31_003
UNSENT = -31_004
DENIED = -31_005
# What each code of a request that was not sent comes from: not each is a reason to send it again.
_NOT_SENT: Mapping[int, type[UpstreamNotReachedError]] = {
    NOT_REACHED: UpstreamRefusedError,
    DENIED: EgressDeniedError,
    UNSENT: UpstreamNotReachedError,
}
# An upstream may send these codes too; only this process can send the mark beside them.
MARK = secrets.token_hex(16)
CONNECT_SECONDS_MAX = 10.0
JSON_BYTES_MAX = ANSWER_BYTES_MAX


class FaultContainingTransport(httpx2.AsyncBaseTransport):
    """Turns transport errors into JSON-RPC errors for the request that suffered them."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        """Wrap `inner`."""
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the upstream's response, or the error that its request ends with."""
        request_id = _request_id(request)
        try:
            response = await self._inner.handle_async_request(request)
            return await _contained(request, response, request_id)
        except UpstreamNotReachedError as error:
            return _answer(request, request_id, _code_of(error), str(error))
        except UpstreamFailedError as error:
            return _answer(request, request_id, UNFIT, str(error))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _answer(request, request_id, NOT_REACHED, f"cannot connect: {error}")
        except httpx2.TransportError as error:
            return _answer(request, request_id, BROKE_OFF, f"{type(error).__name__}: {error}")

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._inner.aclose()


# What wraps the connections of one upstream, to add what only it may be sent.
Wrap = Callable[[httpx2.AsyncBaseTransport], httpx2.AsyncBaseTransport]


def guarded_transport(
    *, reach: Reach, wrap: Wrap | None = None, spare_posts: bool = False
) -> httpx2.AsyncBaseTransport:
    """Return connections to checked addresses; bodies that nobody needs are not read."""
    plain = SparingTransport(httpx2.AsyncHTTPTransport(retries=0), spare_posts=spare_posts)
    guarded = GuardedTransport(plain, Ways(reach))
    return guarded if wrap is None else wrap(guarded)


def contained_client(
    headers: Mapping[str, str], *, reach: Reach, wrap: Wrap | None = None
) -> httpx2.AsyncClient:
    """Return an HTTP client for one upstream; the call's own time limit bounds the reading."""
    return httpx2.AsyncClient(
        # A few compressed bytes can be gigabytes; what is counted must be what is read.
        headers={**headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS_MAX),
        transport=FaultContainingTransport(guarded_transport(reach=reach, wrap=wrap)),
        follow_redirects=False,
        trust_env=False,
    )


def unsent(upstream: str, error: MCPError) -> UpstreamNotReachedError | None:
    """Return what kept a request from being sent, None where the error is not of this process."""
    kind = _NOT_SENT.get(error.code) if error.data == MARK else None
    return None if kind is None else kind(f"upstream {upstream}: {error.message}")


def _code_of(error: UpstreamNotReachedError) -> int:
    return next(code for code, kind in _NOT_SENT.items() if isinstance(error, kind))


def _request_id(request: httpx2.Request) -> object:
    """Return the JSON-RPC id of a request that waits for an answer, else None."""
    if request.method != "POST":
        return None
    try:
        body = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return None
    return body.get("id") if isinstance(body, dict) and "method" in body else None


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("application/json")


def _is_fault(response: httpx2.Response) -> bool:
    """Tell whether the server, or what stands before it, fails: no answer of the protocol."""
    return response.is_server_error and not _is_json(response)


def _is_compressed(response: httpx2.Response) -> bool:
    return response.headers.get("content-encoding", "identity").lower() != "identity"


async def _contained(
    request: httpx2.Request, response: httpx2.Response, request_id: object
) -> httpx2.Response:
    """Return the response as it may be read, or the error that its request ends with."""
    if _is_compressed(response):
        await response.aclose()
        return _answer(request, request_id, UNFIT, "compressed against our request")
    if request_id is not None and _is_fault(response):
        await response.aclose()
        message = f"the server answered with HTTP {response.status_code}"
        return _answer(request, request_id, BROKE_OFF, message)
    if request_id is not None and _is_json(response):
        return await _read_whole(request, response, request_id)
    return response


async def _read_whole(
    request: httpx2.Request, response: httpx2.Response, request_id: object
) -> httpx2.Response:
    """Return the response with its body read here, where a break-off can still be answered."""
    chunks, total = [], 0
    try:
        async for chunk in response.aiter_raw():
            total += len(chunk)
            if total > JSON_BYTES_MAX:
                message = f"the answer is larger than {JSON_BYTES_MAX} bytes"
                return _answer(request, request_id, UNFIT, message)
            chunks.append(chunk)
    finally:
        await response.aclose()
    return httpx2.Response(response.status_code, headers=response.headers, content=b"".join(chunks))


def _answer(
    request: httpx2.Request, request_id: object, code: int, message: str
) -> httpx2.Response:
    if request_id is None:
        # A notification or a stream that nobody waits for: it is lost, its connection is not.
        return httpx2.Response(HTTPStatus.BAD_GATEWAY, request=request)
    body = {
        "jsonrpc": "2.0",
        "id": request_id,
        "error": {"code": code, "message": message, "data": MARK},
    }
    return httpx2.Response(HTTPStatus.OK, json=body, request=request)
