"""Single small requests: documents and tokens, without redirects, over checked addresses."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio

from tool_gateway.egress.reach import Reach
from tool_gateway.egress.ways import Resolve, Ways, of_the_system
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.upstreams.http1 import ConnectionPool
from tool_gateway.upstreams.origin import Origin, can_be_sent, origin_of

SECONDS_MAX = 10.0
BYTES_MAX = 512 * 1024
_SUCCESS = range(200, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """An answer; its body may be secret."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        """Tell whether the server did what was asked."""
        return self.status in _SUCCESS

    def members(self) -> dict[str, object]:
        """Return the members of the JSON object in the body.

        Raises:
            UpstreamFailedError: there is none.
        """
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            # What was sent may be secret, so it is not quoted.
            raise UpstreamFailedError("the answer is not JSON") from error
        if not isinstance(found, dict):
            raise UpstreamFailedError("the answer is not a JSON object")
        return found


class Fetcher:
    """Sends each request on a connection of its own, which is closed with the answer."""

    def __init__(self, *, resolve: Resolve = of_the_system) -> None:
        """Take who resolves names."""
        self._resolve = resolve

    async def fetched(
        self,
        url: str,
        *,
        reach: Reach,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        seconds_max: float = SECONDS_MAX,
    ) -> Fetched:
        """Return the answer to a GET, or to a POST of `body`; a redirect is an answer too.

        Raises:
            EgressDeniedError: the URL leads where `reach` does not.
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it broke off, took too long or is too large.
        """
        origin = origin_of(url)
        if origin is None:
            raise UpstreamNotReachedError("this is no plain http or https address")
        head = _head(origin, headers or {}, body)
        pool = ConnectionPool(origin.host_header, origin, Ways(reach, resolve=self._resolve))
        try:
            with anyio.fail_after(seconds_max):
                async with pool.sent(head, body or b"") as response:
                    read = await response.read(BYTES_MAX)
                    return Fetched(status=response.status, headers=response.headers, body=read)
        except TimeoutError as error:
            message = f"{origin.host} did not answer within {seconds_max:.0f} s"
            raise UpstreamFailedError(message) from error
        finally:
            pool.close()


def _head(origin: Origin, headers: Mapping[str, str], body: bytes | None) -> bytes:
    assert can_be_sent(headers), "a header here is made by the sidecar"
    lines = {
        "host": origin.host_header,
        "accept": "application/json",
        "accept-encoding": "identity",
        "connection": "close",
        **headers,
    }
    if body is not None:
        lines["content-length"] = str(len(body))
    method = "GET" if body is None else "POST"
    told = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {origin.path} HTTP/1.1\r\n{told}\r\n".encode("ascii")
