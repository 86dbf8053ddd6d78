"""Ends what nobody else ended: holds whose time has passed."""

import logging

import anyio

from memory_store.errors import StoreError
from memory_store.ledger import SqlLedger
from tool_gateway import telemetry
from tool_gateway.ports import Clock

logger = logging.getLogger(__name__)

EVERY_SECONDS = 5.0


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
