"""Ends and removes by time what nobody else does: overdue holds, idle sessions, old records."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import anyio

from governor.ids import SessionId
from governor.session import SessionState
from memory_store.audit import Actor
from memory_store.errors import StoreOverloadedError, StoreUnavailableError
from memory_store.experiences.values import KeepRule
from memory_store.freezing import IDLE
from memory_store.ledger import SqlLedger
from memory_store.retention import Retention
from memory_store.sessions import SessionBook
from memory_store.store import Store
from tool_gateway import telemetry
from tool_gateway.approver import Approver
from tool_gateway.errors import LedgerUnavailableError
from tool_gateway.freezing import SessionFreezer
from tool_gateway.needs import Needing
from tool_gateway.ports import Clock
from tool_gateway.running import RunningCalls
from tool_gateway.sessions import PREFIX

logger = logging.getLogger(__name__)

# The rules by which experiences go at a time, in epoch milliseconds.
KeepRules = Callable[[int], Sequence[KeepRule]]

EVERY_SECONDS = 5.0
AUDIT_EVERY_SECONDS = 10.0
IDLE_EVERY_SECONDS = 60.0
PURGE_EVERY_SECONDS = 3600.0
# What another sidecar put in force is in force here within twice that.
PRICES_EVERY_SECONDS = 1.0
PINS_EVERY_SECONDS = 5.0
SESSIONS_EVERY_SECONDS = 1.0
LEARN_EVERY_SECONDS = 5.0
LEARN_AT_THE_END_SECONDS_MAX = 2.0
# The gateway counts a session's rest from the end of its last call, a little after the store
# does: a session must not be closed that the gateway would still go on with.
IDLE_GRACE_MS = 60_000


class ChoiceLog(Protocol):
    """Where it is kept what was chosen, and what came of it."""

    async def remove(self, *, before_ms: int) -> object:
        """Remove what was chosen before."""
        ...


_AWAY = (StoreUnavailableError, StoreOverloadedError, LedgerUnavailableError)


async def reap_for_ever(ledger: SqlLedger, clock: Clock, running: RunningCalls) -> None:
    """Expire overdue holds until cancelled, but for those of calls that run in this process.

    A failure is counted and tried again.
    """
    tried = _Tried("reaper", "overdue holds could not be ended")
    while True:
        await anyio.sleep(EVERY_SECONDS)
        with tried():
            for fact in await ledger.expire_due(
                now_ms=clock.now_ms(), is_running=running.is_running_on
            ):
                logger.warning("hold of %s expired: nobody ended it", fact.reservation.call_id)


async def learn_for_ever(needing: Needing) -> None:
    """Keep what is learned of calls, and take over what others learned, until cancelled.

    A failure is counted and tried again; at the end what is new is kept once more.
    """
    tried = _Tried("learning", "what was learned of calls could not be kept")
    try:
        while True:
            with tried():
                await needing.exchange()
            await anyio.sleep(LEARN_EVERY_SECONDS)
    finally:
        with anyio.move_on_after(LEARN_AT_THE_END_SECONDS_MAX, shield=True), tried():
            await needing.exchange()


async def end_approvals_for_ever(approver: Approver) -> None:
    """Give up questions that nobody answered in time; a failure is counted and tried again."""
    tried = _Tried("approvals", "approvals could not be ended")
    while True:
        await anyio.sleep(EVERY_SECONDS)
        with tried():
            await approver.sweep()


async def audit_for_ever(store: Store) -> None:
    """Add the books up until cancelled; where they do not add up, nothing more is admitted."""
    tried = _Tried("conservation", "the books could not be added up")
    while True:
        await anyio.sleep(AUDIT_EVERY_SECONDS)
        with tried():
            for breach in await store.breaches():
                telemetry.count_failure("breach")
                logger.critical("nothing more is admitted, because of the books: %s", breach)


async def close_idle_for_ever(sessions: SessionBook, clock: Clock, *, idle_ms: int) -> None:
    """Close sessions that their callers did not name and that rest for `idle_ms`.

    The gateway gives such a caller a new session then. A failure is counted and tried again.
    """
    tried = _Tried("idle_sessions", "idle sessions could not be closed")
    while True:
        await anyio.sleep(IDLE_EVERY_SECONDS)
        with tried():
            now_ms = clock.now_ms()
            closed = await sessions.close_idle(
                prefix=f"{PREFIX}_",
                before_ms=now_ms - idle_ms - IDLE_GRACE_MS,
                by=Actor(name=IDLE),
                now_ms=now_ms,
            )
            if closed:
                logger.info("%d idle sessions were closed", closed)


async def purge_for_ever(
    retention: Retention, clock: Clock, keep_ms: int, *, experiences: KeepRules
) -> None:
    """Remove what is older than `keep_ms`, at once and then by the hour, until cancelled.

    `experiences` says by which rules experiences go. A failure is counted and tried again.
    """
    tried = _Tried("retention", "old records could not be removed")
    while True:
        with tried():
            now_ms = clock.now_ms()
            purged = await retention.purge(
                before_ms=now_ms - keep_ms, now_ms=now_ms, experiences=experiences(now_ms)
            )
            logger.info("old records were removed: %s", purged)
        await anyio.sleep(PURGE_EVERY_SECONDS)


async def purge_log_for_ever(log: ChoiceLog, clock: Clock, keep_ms: int, what: str) -> None:
    """Remove what was chosen longer ago than `keep_ms`, by the hour, until cancelled.

    A failure is counted, as one of `what`, and tried again.
    """
    tried = _Tried(what, "what was chosen long ago could not be removed")
    while True:
        with tried():
            await log.remove(before_ms=clock.now_ms() - keep_ms)
        await anyio.sleep(PURGE_EVERY_SECONDS)


async def follow_prices_for_ever(refresh: Callable[[], Awaitable[object]]) -> None:
    """Look which prices other sidecars put in force, until cancelled.

    A failure is counted and tried again.
    """
    tried = _Tried("prices", "the price list could not be read")
    while True:
        await anyio.sleep(PRICES_EVERY_SECONDS)
        with tried():
            await refresh()


async def follow_pins_for_ever(refresh: Callable[[], Awaitable[object]]) -> None:
    """Look which manifests were approved through other sidecars, until cancelled.

    A failure is counted and tried again.
    """
    tried = _Tried("pins", "the approved manifests could not be read")
    while True:
        await anyio.sleep(PINS_EVERY_SECONDS)
        with tried():
            await refresh()


async def follow_sessions_for_ever(
    sessions: SessionBook, running: RunningCalls, freezer: SessionFreezer
) -> None:
    """Do to the calls of this process what was done to their sessions elsewhere, until cancelled.

    A failure is counted and tried again.
    """
    frozen: set[SessionId] = set()
    tried = _Tried("sessions", "how the sessions of running calls stand could not be read")
    while True:
        await anyio.sleep(SESSIONS_EVERY_SECONDS)
        with tried():
            at_work = running.sessions
            states = await sessions.states(tuple(at_work)) if at_work else {}
            for session, state in states.items():
                if state.is_closed:
                    running.stop_session(session, why=f"the session was ended ({state.value})")
                elif session not in frozen:
                    await freezer.freeze(session)
            now_frozen = {one for one, state in states.items() if state is SessionState.FROZEN}
            for session in frozen & at_work - now_frozen:
                await freezer.thaw(session)
            frozen = now_frozen


class _Tried:
    """Counts and logs whatever goes wrong, so that the loop around goes on.

    A loop here is the top of its task: what left it would end the sidecar. A store that is
    away is told once, without where in the code it was missed, until it is there again.
    """

    def __init__(self, part: str, problem: str) -> None:
        """Begin with nothing told; `part` is counted, `problem` is what the log says."""
        self._part = part
        self._problem = problem
        self._is_away = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Guard one try."""
        try:
            yield
        except _AWAY as error:
            telemetry.count_failure(self._part)
            if not self._is_away:
                logger.warning("%s: %s; it is tried until it works", self._problem, error)
            self._is_away = True
        except Exception:
            telemetry.count_failure(self._part)
            logger.exception("%s; it will be tried again", self._problem)
        else:
            if self._is_away:
                logger.info("%s for a while; now it works again", self._problem)
            self._is_away = False
