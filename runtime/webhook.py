"""Notices on their way to a webhook: in order, signed, at least once.

A notice is marked as delivered after the receiver has answered 2xx. A crash in between sends
it again, so receivers tell notices apart by `seq`. The signature covers the moment and the
body: `Flyball-Signature: t=<epoch ms>,v1=<hex HMAC-SHA256 of "<t>.<body>">`.
"""

import hmac
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import anyio
from pydantic import SecretStr

from memory_store.errors import StoreError
from memory_store.notices import NoticeBook, NoticeView
from tool_gateway import telemetry
from tool_gateway.egress.reach import NAMED, Reach
from tool_gateway.errors import UpstreamError, UpstreamFailedError
from tool_gateway.ports import Clock
from tool_gateway.upstreams.fetching import Fetcher

logger = logging.getLogger(__name__)

SIGNATURE = "Flyball-Signature"
BATCH_MAX = 50
EVERY_SECONDS = 1.0
RETRY_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Where notices go, and what they are signed with."""

    url: str
    secret: SecretStr
    timeout_ms: int = 10_000
    reach: Reach = NAMED


def notice_json(view: NoticeView) -> dict[str, object]:
    """Return a notice as receivers and administrators see it."""
    return {
        "seq": view.seq,
        "at_ms": view.at_ms,
        "tenant": view.tenant,
        "kind": view.kind,
        "budget_id": view.budget_id,
        "subject": view.subject,
        "unit": view.unit.value,
        "call_id": view.call_id,
        "detail": json.loads(view.detail),
    }


def signature(secret: str, body: bytes, *, at_ms: int) -> str:
    """Return the signature header of `body`, sent at `at_ms`."""
    signed = hmac.new(secret.encode(), f"{at_ms}.".encode() + body, sha256).hexdigest()
    return f"t={at_ms},v1={signed}"


async def deliver_for_ever(
    notices: NoticeBook, clock: Clock, webhook: Webhook, *, every_seconds: float = EVERY_SECONDS
) -> None:
    """Deliver notices until cancelled; one that is not taken is sent again, ever more rarely."""
    wait = every_seconds
    # No redirects: a signed body goes where the operator said.
    fetcher = Fetcher()
    while True:
        try:
            sent = await deliver_once(notices, clock, webhook, fetcher)
        except (StoreError, UpstreamError) as error:
            telemetry.count_failure("webhook")
            logger.warning("notices were not delivered: %s; trying again in %.1f s", error, wait)
            await anyio.sleep(wait)
            wait = min(2 * wait, RETRY_SECONDS_MAX)
            continue
        wait = every_seconds
        # A full batch means that more wait.
        if sent < BATCH_MAX:
            await anyio.sleep(every_seconds)


async def deliver_once(
    notices: NoticeBook, clock: Clock, webhook: Webhook, fetcher: Fetcher
) -> int:
    """Send the oldest notices and return how many the receiver took.

    Raises:
        UpstreamError: it could not be reached, may not be, or did not answer 2xx.
        StoreError: the notices cannot be read or marked now.
    """
    batch = await notices.undelivered(limit=BATCH_MAX)
    if not batch:
        return 0
    body = json.dumps({"notices": [notice_json(view) for view in batch]}).encode()
    headers: Mapping[str, str] = {
        "Content-Type": "application/json",
        SIGNATURE: signature(webhook.secret.get_secret_value(), body, at_ms=clock.now_ms()),
    }
    answer = await fetcher.fetched(
        webhook.url,
        reach=webhook.reach,
        headers=headers,
        body=body,
        seconds_max=webhook.timeout_ms / 1000,
    )
    if not answer.is_success:
        raise UpstreamFailedError(f"the receiver answered HTTP {answer.status}")
    await notices.delivered([view.seq for view in batch], now_ms=clock.now_ms())
    return len(batch)
