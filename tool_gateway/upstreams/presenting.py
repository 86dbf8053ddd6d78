"""The HTTP library's requests with an upstream's credentials, renewed once if they are refused."""

from collections.abc import Callable

import anyio
import httpx2

from tool_gateway.bearer import Bearer
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.upstreams.oauth.addresses import origin_text
from tool_gateway.upstreams.oauth.challenge import Challenge, challenge_of
from tool_gateway.upstreams.oauth.credentials import Credentials

CLOSE_SECONDS_MAX = 5.0
# What the library says where nothing was sent.
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


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
            UpstreamFailedError: it was sent and refused, and could not be sent again.
        """
        if origin_text(str(request.url)) != self._origin:
            return await self._inner.handle_async_request(request)
        bearer = self._bearer_of()
        token = await self._credentials.token(bearer)
        response = await self._inner.handle_async_request(_carrying(request, token))
        challenge = challenge_of(response.status_code, response.headers.get("www-authenticate", ""))
        if challenge is None:
            return response
        try:
            renewed = await self._renewed(bearer, token, challenge, response)
            if renewed is None:
                return response
            return await self._inner.handle_async_request(_carrying(request, renewed))
        except (UpstreamNotReachedError, *_UNSENT) as error:
            # The request was sent once, so nobody may take it for one that never was.
            told = f"it refuses its credentials (HTTP {challenge.status}), and then: {error}"
            raise UpstreamFailedError(told) from error

    async def _renewed(
        self,
        bearer: Bearer | None,
        used: str | None,
        challenge: Challenge,
        refusal: httpx2.Response,
    ) -> str | None:
        """Return another token; the connection of the refusal is free unless that is the answer."""
        try:
            renewed = await self._credentials.renewed(bearer, used, challenge)
        except BaseException:
            # Nobody else will close it, and the pool has only so many.
            with anyio.move_on_after(CLOSE_SECONDS_MAX, shield=True):
                await refusal.aclose()
            raise
        if renewed is not None:
            await refusal.aclose()
        return renewed

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._inner.aclose()


def _carrying(request: httpx2.Request, token: str | None) -> httpx2.Request:
    if token is not None:
        request.headers["authorization"] = f"Bearer {token}"
    return request
