"""Ends and removes by time what nobody else does: overdue holds, old records."""

import logging

import anyio

from memory_store.errors import StoreError
from memory_store.ledger import SqlLedger
from memory_store.retention import Retention
from tool_gateway import telemetry
from tool_gateway.ports import Clock

logger = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
PURGE_EVERY_SECONDS = 3600.0


async def reap_for_ever(ledger: SqlLedger, clock: Clock) -> None:
    """Expire overdue holds until cancelled; a failure is counted and tried again."""
    while True:
        await anyio.sleep(EVERY_SECONDS)
        try:
            expired = await ledger.expire_due(now_ms=clock.now_ms())
        except StoreError:
            telemetry.count_failure("reaper")
            logger.exception("overdue holds could not be ended; they will be tried again")
            continue
        for fact in expired:
            logger.warning("hold of %s expired: nobody ended it", fact.reservation.call_id)


async def purge_for_ever(retention: Retention, clock: Clock, keep_ms: int) -> None:
    """Remove what is older than `keep_ms`, at once and then by the hour, until cancelled.

    A failure is counted and tried again.
    """
    while True:
        now_ms = clock.now_ms()
        try:
            purged = await retention.purge(before_ms=now_ms - keep_ms, now_ms=now_ms)
        except StoreError:
            telemetry.count_failure("retention")
            logger.exception("old records could not be removed; they will be tried again")
        else:
            logger.info("old records were removed: %s", purged)
        await anyio.sleep(PURGE_EVERY_SECONDS)
