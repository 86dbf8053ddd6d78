"""The HTTP library's requests with an upstream's credentials, renewed once if they are refused."""

from collections.abc import Callable

import httpx2

from tool_gateway.bearer import Bearer
from tool_gateway.upstreams.oauth.addresses import origin_text
from tool_gateway.upstreams.oauth.challenge import challenge_of
from tool_gateway.upstreams.oauth.credentials import Credentials


class PresentingTransport(httpx2.AsyncBaseTransport):
    """Adds the token of whoever causes a request, on the upstream's own origin alone."""

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        credentials: Credentials,
        *,
        url: str,
        bearer_of: Callable[[], Bearer | None],
    ) -> None:
        """Wrap `inner`; `bearer_of` tells for whom the running task sends."""
        self._inner = inner
        self._credentials = credentials
        self._origin = origin_text(url)
        self._bearer_of = bearer_of

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the upstream's response.

        Raises:
            UpstreamNotReachedError: there are no credentials to be had, and nothing was sent.
        """
        if origin_text(str(request.url)) != self._origin:
            return await self._inner.handle_async_request(request)
        bearer = self._bearer_of()
        token = await self._credentials.token(bearer)
        response = await self._inner.handle_async_request(_carrying(request, token))
        challenge = challenge_of(response.status_code, response.headers.get("www-authenticate", ""))
        if challenge is None:
            return response
        renewed = await self._credentials.renewed(bearer, token, challenge)
        if renewed is None:
            return response
        await response.aclose()
        return await self._inner.handle_async_request(_carrying(request, renewed))

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._inner.aclose()


def _carrying(request: httpx2.Request, token: str | None) -> httpx2.Request:
    if token is not None:
        request.headers["authorization"] = f"Bearer {token}"
    return request
