"""Notices on their way to whoever is told of them: each in order, at least once, at its own pace.

A notice is marked after it was taken. A crash in between sends it again, so receivers tell notices
apart by `seq`. One that takes nothing for a while holds up nobody else.
"""

import json
import logging
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from governor.denial_tally import DenialsSeen, DenialTally
from memory_store.errors import StoreError
from memory_store.notices import NoticeBook, NoticeKind, NoticeView
from tool_gateway import telemetry
from tool_gateway.ports import Clock

logger = logging.getLogger(__name__)

BATCH_MAX = 50
EVERY_SECONDS = 1.0
RETRY_SECONDS_MAX = 60.0
DELIVER_SECONDS_MAX = 60.0
# Longer than a delivery: of sidecars on one database nobody begins before the other is through.
LEASE_MS = 90_000
MOVE_ON_SECONDS = 60.0
DENIALS_EVERY_SECONDS = 2.0
LAST_SECONDS_MAX = 2.0


class Notifier(Protocol):
    """Whoever notices are delivered to; how far it is, is kept under its name."""

    @property
    def name(self) -> str:
        """Return its name, which stays the same over restarts."""
        ...

    def wants(self, kind: str) -> bool:
        """Tell whether notices of a kind are for it."""
        ...

    async def deliver(self, notices: Sequence[NoticeView]) -> None:
        """Take all of these; whatever is raised means that they are to be brought again."""
        ...


def notice_json(view: NoticeView) -> dict[str, object]:
    """Return a notice as receivers and administrators see it."""
    return {
        "seq": view.seq,
        "at_ms": view.at_ms,
        "tenant": view.tenant,
        "kind": view.kind.value,
        "budget_id": view.budget_id,
        "subject": view.subject,
        "unit": None if view.unit is None else view.unit.value,
        "call_id": view.call_id,
        "detail": json.loads(view.detail),
    }


def start_notifying(
    tasks: TaskGroup, notices: NoticeBook, clock: Clock, notifiers: Sequence[Notifier]
) -> None:
    """Begin to deliver to each of them."""
    owner = clock.fresh("nfy")
    for notifier in notifiers:
        deliver = partial(deliver_for_ever, notices, clock, notifier, owner=owner)
        tasks.start_soon(deliver, name=f"notifier {notifier.name}")


async def deliver_for_ever(
    notices: NoticeBook,
    clock: Clock,
    notifier: Notifier,
    *,
    owner: str,
    every_seconds: float = EVERY_SECONDS,
) -> None:
    """Deliver notices until cancelled; what is not taken is brought again, ever more rarely.

    `owner` tells this process from others that deliver from the same database.
    """
    delivery = Delivery(notices, clock, notifier, owner=owner)
    wait = every_seconds
    while True:
        try:
            taken = await delivery.once()
        except Exception as error:  # noqa: BLE001 - top of a task; notifiers raise anything
            telemetry.count_failure("notifier")
            logger.warning(
                "notices were not taken by %s: %s; trying again in %.1f s",
                notifier.name,
                str(error) or type(error).__name__,
                wait,
            )
            await anyio.sleep(wait)
            wait = min(2 * wait, RETRY_SECONDS_MAX)
            continue
        wait = every_seconds
        # A full batch means that more wait.
        if taken < BATCH_MAX:
            await anyio.sleep(every_seconds)


class Delivery:
    """What one notifier is brought, and what is kept of it."""

    def __init__(
        self, notices: NoticeBook, clock: Clock, notifier: Notifier, *, owner: str
    ) -> None:
        """Take where notices stand and who is to have them; nothing is read yet."""
        self._notices = notices
        self._clock = clock
        self._notifier = notifier
        self._owner = owner
        self._kinds = [kind for kind in NoticeKind if notifier.wants(kind.value)]
        self._is_known = False
        self._moved_at: float | None = None

    async def once(self) -> int:
        """Bring the oldest notices and return how many were taken.

        Raises:
            TimeoutError: it took too long.
            StoreError: the notices cannot be read or marked now.
            Exception: whatever the notifier raises.
        """
        name = self._notifier.name
        if not self._is_known:
            await self._notices.meet(name)
            self._is_known = True
        batch = await self._notices.untaken(name, self._kinds, limit=BATCH_MAX)
        if batch:
            batch = await self._leased()
        if batch:
            with anyio.fail_after(DELIVER_SECONDS_MAX):
                await self._notifier.deliver(batch)
            seqs = [view.seq for view in batch]
            await self._notices.taken(name, seqs, now_ms=self._clock.now_ms())
        await self._move_on()
        return len(batch)

    async def _leased(self) -> tuple[NoticeView, ...]:
        """Return what is this process's to deliver: nothing where another one is at it."""
        name, now_ms = self._notifier.name, self._clock.now_ms()
        is_mine = await self._notices.lease(
            name, by=self._owner, now_ms=now_ms, until_ms=now_ms + LEASE_MS
        )
        if not is_mine:
            return ()
        # Read again: whoever had the lease before may have delivered these.
        return await self._notices.untaken(name, self._kinds, limit=BATCH_MAX)

    async def _move_on(self) -> None:
        """Let go of receipts that nobody needs any more, now and then."""
        now = anyio.current_time()
        if self._moved_at is None or now - self._moved_at >= MOVE_ON_SECONDS:
            self._moved_at = now
            await self._notices.move_on(
                self._notifier.name, self._kinds, now_ms=self._clock.now_ms()
            )


async def tell_denials_for_ever(
    denials: DenialTally,
    notices: NoticeBook,
    clock: Clock,
    *,
    every_seconds: float = DENIALS_EVERY_SECONDS,
) -> None:
    """Store notices of denials until cancelled, and what is left then."""
    try:
        while True:
            await anyio.sleep(every_seconds)
            now_ms = clock.now_ms()
            await _tell_denials(denials, denials.due(now_ms=now_ms), notices, now_ms=now_ms)
    finally:
        with anyio.move_on_after(LAST_SECONDS_MAX, shield=True):
            await _tell_denials(denials, denials.rest(), notices, now_ms=clock.now_ms())


async def _tell_denials(
    denials: DenialTally, due: tuple[DenialsSeen, ...], notices: NoticeBook, *, now_ms: int
) -> None:
    if not due:
        return
    try:
        await notices.tell_denials(due, now_ms=now_ms)
    except StoreError:
        telemetry.count_failure("denial_notices")
        denials.again(due)
