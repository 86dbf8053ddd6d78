"""Looking after an open connection: whether the upstream still answers, and is still used."""

import logging
from collections.abc import Callable

import anyio
import mcp_types
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tool_gateway.upstreams.spec import Health
from tool_gateway.upstreams.vitals import EndCause, Vitals
from tool_gateway.upstreams.whatever import sent_whole

logger = logging.getLogger(__name__)


async def until_unhealthy(
    client: Client, health: Health, vitals: Vitals, is_busy: Callable[[], bool]
) -> None:
    """Return when the upstream no longer answers; ask it now and again.

    It is not asked while it works on something: that has a time limit of its own, and one
    that does a single thing at a time could not answer. A call that ran into its limit counts
    as a check that was not answered, and every answer makes those before it void.
    """
    while vitals.failed_checks < health.failures_max:
        with anyio.move_on_after(health.every_ms / 1000):
            await vitals.suspected.wait()
        if is_busy() or vitals.failed_checks >= health.failures_max:
            continue
        with anyio.move_on_after(health.timeout_ms / 1000) as waiting:
            await _asked(client)
        if waiting.cancelled_caught and not is_busy():
            vitals.unanswered()
            logger.info("upstream %s: a health check was not answered", vitals.name)
        elif not waiting.cancelled_caught:
            vitals.answered()
    count, within_ms = vitals.failed_checks, health.timeout_ms
    why = f"it left {count} health checks or calls in a row unanswered, for {within_ms} ms or more"
    vitals.blame(EndCause.UNHEALTHY, why)


async def _asked(client: Client) -> None:
    """Return when the upstream has answered, whatever it said."""
    is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    try:
        await sent_whole(client, "server/discover" if is_modern else "ping", {})
    except ValidationError:
        return
    except MCPError as error:
        if error.code == mcp_types.CONNECTION_CLOSED:
            # The loss is noticed by whoever reads the connection.
            await anyio.sleep_forever()


async def until_idle(idle_ms: int, rests_since: Callable[[], float | None]) -> None:
    """Return when the upstream was not used for so long; `rests_since` is None while it is."""
    while True:
        since = rests_since()
        now = anyio.current_time()
        left_s = idle_ms / 1000 - (0.0 if since is None else now - since)
        if left_s <= 0:
            return
        await anyio.sleep(left_s)
