"""The HTTP library's connections, each to an address that was checked after it was resolved.

The library resolves names by itself, so it is given none: the address stands in the URL, the
name in the `Host` header and in the TLS handshake, which still checks the certificate for it.
"""

from dataclasses import dataclass

import anyio
import httpx2

from tool_gateway.egress.ways import Ways

# Kept connections outlive a lookup; a name that moves is followed this much later.
LOOKUP_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class _Lookup:
    addresses: tuple[str, ...]
    good_until: float


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests of one upstream to the addresses that may be reached."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, ways: Ways) -> None:
        """Wrap `inner`, which connects; `ways` says where to."""
        self._inner = inner
        self._ways = ways
        self._lookups: dict[tuple[str, int], _Lookup] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response of the first address that can be connected to.

        Raises:
            EgressDeniedError: the host leads where it may not.
            UpstreamNotReachedError: the name cannot be resolved.
        """
        addresses = await self._addresses_of(request.url)
        for address in addresses[:-1]:
            try:
                return await self._inner.handle_async_request(_sent_to(request, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue  # nothing was sent: the next address gets the same request
        try:
            return await self._inner.handle_async_request(_sent_to(request, addresses[-1]))
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            self._lookups.clear()
            raise

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._inner.aclose()

    async def _addresses_of(self, url: httpx2.URL) -> tuple[str, ...]:
        host = _host_of(url)
        port = url.port or (443 if url.scheme == "https" else 80)
        known, now = self._lookups.get((host, port)), anyio.current_time()
        if known is not None and now < known.good_until:
            return known.addresses
        found = await self._ways.to(host, port)
        # A client speaks to one server, whose address at most a redirect of it would change.
        self._lookups = {(host, port): _Lookup(found, now + LOOKUP_SECONDS_MAX)}
        return found


def _host_of(url: httpx2.URL) -> str:
    return url.raw_host.decode("ascii")


def _sent_to(request: httpx2.Request, address: str) -> httpx2.Request:
    """Return the request as it goes to `address`; it is still one for its host.

    TLS is given the name as it was resolved: beyond ASCII others may spell it otherwise.
    """
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": _host_of(request.url)},
    )
