"""A webhook: notices as signed JSON over HTTP.

The signature covers the moment and the body:
`Flyball-Signature: t=<epoch ms>,v1=<hex HMAC-SHA256 of "<t>.<body>">`.
"""

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from pydantic import SecretStr

from memory_store.notices import NoticeKind, NoticeView
from runtime.notifying import notice_json
from tool_gateway.egress.reach import NAMED, Reach
from tool_gateway.errors import UpstreamFailedError
from tool_gateway.ports import Clock
from tool_gateway.upstreams.fetching import Fetcher

SIGNATURE = "Flyball-Signature"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Where notices go, of which kinds, and what they are signed with."""

    name: str
    url: str
    secret: SecretStr
    kinds: frozenset[NoticeKind] = frozenset(NoticeKind)
    timeout_ms: int = 10_000
    reach: Reach = NAMED


def signature(secret: str, body: bytes, *, at_ms: int) -> str:
    """Return the signature header of `body`, sent at `at_ms`."""
    signed = hmac.new(secret.encode(), f"{at_ms}.".encode() + body, sha256).hexdigest()
    return f"t={at_ms},v1={signed}"


class WebhookNotifier:
    """Posts notices to a webhook's address."""

    def __init__(self, webhook: Webhook, *, clock: Clock) -> None:
        """Take where they go; nothing is sent yet."""
        self._webhook = webhook
        self._clock = clock
        # No redirects: a signed body goes where the operator said.
        self._fetcher = Fetcher()

    @property
    def name(self) -> str:
        """Return the webhook's name."""
        return self._webhook.name

    def wants(self, kind: str) -> bool:
        """Tell whether notices of a kind are sent there."""
        return kind in self._webhook.kinds

    async def deliver(self, notices: Sequence[NoticeView]) -> None:
        """Send notices in one request, which the receiver takes by answering 2xx.

        Raises:
            UpstreamError: it could not be reached, may not be, or did not answer 2xx.
        """
        webhook = self._webhook
        body = json.dumps({"notices": [notice_json(view) for view in notices]}).encode()
        signed = signature(webhook.secret.get_secret_value(), body, at_ms=self._clock.now_ms())
        answer = await self._fetcher.fetched(
            webhook.url,
            reach=webhook.reach,
            headers={"Content-Type": "application/json", SIGNATURE: signed},
            body=body,
            seconds_max=webhook.timeout_ms / 1000,
        )
        if not answer.is_success:
            raise UpstreamFailedError(f"the receiver answered HTTP {answer.status}")
