"""HTTP answers whose bodies nobody needs, without what would be read of them all the same.

The SDK reads the body of a redirect, and of each answer to a message of the transport of
2024-11-05, whole and without a bound. Nothing of either is used.
"""

import anyio
import httpx2

# What is left of an ordinary one is read, so that its connection can be kept.
SPARED_BYTES_MAX = 4_096
SPARED_SECONDS_MAX = 2.0
_FRAMING = frozenset({"content-length", "content-encoding", "transfer-encoding"})


class SparingTransport(httpx2.AsyncBaseTransport):
    """Empties the bodies of redirects and, if it is to spare posts, of all answers to them."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, spare_posts: bool = False) -> None:
        """Wrap `inner`."""
        self._inner = inner
        self._spare_posts = spare_posts

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the server's response, without its body where nobody needs that."""
        response = await self._inner.handle_async_request(request)
        is_spared = response.is_redirect or (self._spare_posts and request.method == "POST")
        return await _emptied(response) if is_spared else response

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._inner.aclose()


async def _emptied(response: httpx2.Response) -> httpx2.Response:
    """Return the response with no body; the connection is closed if there is much of one."""
    total = 0
    try:
        with anyio.move_on_after(SPARED_SECONDS_MAX):
            async for chunk in response.aiter_raw():
                total += len(chunk)
                if total > SPARED_BYTES_MAX:
                    break
    finally:
        await response.aclose()
    headers = [(k, v) for k, v in response.headers.multi_items() if k.lower() not in _FRAMING]
    return httpx2.Response(response.status_code, headers=headers)
