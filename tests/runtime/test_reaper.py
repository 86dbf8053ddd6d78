"""Overdue holds are ended, old records removed, and a store that fails is asked again."""

import logging
from collections.abc import Awaitable, Sequence
from typing import Protocol

import anyio
import pytest
from anyio.lowlevel import checkpoint

from governor.admission import AdmissionRequest
from governor.amounts import Amounts, Unit
from governor.events import Expired, Reserved
from governor.ids import CallId, PrincipalId, ReservationId, SessionId, TenantId
from governor.scope import ScopeChain
from governor.target import CallKind, CallTarget
from memory_store.audit import Actor
from memory_store.errors import StoreOverloadedError, StoreUnavailableError
from memory_store.experiences.values import KeepRule
from memory_store.retention import Purged
from memory_store.testing import MemoryLedger
from runtime import reaper
from runtime.reaper import (
    EVERY_SECONDS,
    IDLE_EVERY_SECONDS,
    IDLE_GRACE_MS,
    PURGE_EVERY_SECONDS,
    close_idle_for_ever,
    purge_for_ever,
    reap_for_ever,
)
from tool_gateway import telemetry
from tool_gateway.running import RunningCalls
from tool_gateway.sessions import ImplicitSessions

pytestmark = pytest.mark.anyio

CHAIN = ScopeChain(
    tenant=TenantId("acme"), agent=PrincipalId("ada"), session=SessionId("ses_run-1")
)


# Whatever it is, a loop that ended would take the sidecar with it.
AWAY = (StoreUnavailableError(), StoreOverloadedError())
BUGS = (
    TypeError("a bug"),
    ExceptionGroup("several", [AssertionError("a bug")]),
)
ERRORS = (*AWAY, *BUGS)


class Clock:
    """A clock that stands where a test puts it."""

    def __init__(self) -> None:
        self.at_ms = 0

    def now_ms(self) -> int:
        return self.at_ms

    def elapsed_ms(self) -> int:
        return self.at_ms

    def fresh(self, prefix: str) -> str:
        return f"{prefix}_1"


class FailingLedger:
    """A ledger that raises what it was given, one error for each time, and then works."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.asked_at_ms: list[int] = []

    async def expire_due(self, *, now_ms: int, is_running: object) -> tuple[Expired, ...]:
        self.asked_at_ms.append(now_ms)
        if self._errors:
            raise self._errors.pop(0)
        return ()


class FailingRetention:
    """A retention that raises what it was given, one error for each time, and then works."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.asked: list[tuple[int, int]] = []
        self.rules: list[int] = []

    async def purge(
        self, *, before_ms: int, now_ms: int, experiences: Sequence[KeepRule]
    ) -> Purged:
        self.asked.append((before_ms, now_ms))
        self.rules = [rule.before_ms for rule in experiences]
        if self._errors:
            raise self._errors.pop(0)
        return Purged(calls=0, turns=0, archives=0, orphans=0)


class FailingSessions:
    """Sessions that raise what they were given, one error for each time, and then close."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.asked: list[tuple[str, int, str, int]] = []

    async def close_idle(self, *, prefix: str, before_ms: int, by: Actor, now_ms: int) -> int:
        self.asked.append((prefix, before_ms, by.name, now_ms))
        if self._errors:
            raise self._errors.pop(0)
        return 1


class Reap(Protocol):
    """What the fixture of that name does."""

    async def __call__(self, ledger: object, clock: Clock, *, rounds: int) -> list[float]: ...


class WithoutWaiting(Protocol):
    """What the fixture of that name does."""

    async def __call__(
        self, work: Awaitable[None], clock: Clock, *, rounds: int
    ) -> list[float]: ...


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    counted: list[str] = []
    monkeypatch.setattr(telemetry, "count_failure", counted.append)
    return counted


@pytest.fixture
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> WithoutWaiting:
    """Lets a loop go so many rounds without waiting; returns what it would have waited."""

    async def run(work: Awaitable[None], clock: Clock, *, rounds: int) -> list[float]:
        waited: list[float] = []
        scope = anyio.CancelScope()

        async def no_sleep(seconds: float) -> None:
            if len(waited) == rounds:
                scope.cancel()
            else:
                waited.append(seconds)
                clock.at_ms += round(seconds * 1000)
            await checkpoint()

        with scope, monkeypatch.context() as patched:
            patched.setattr(reaper.anyio, "sleep", no_sleep)
            await work
        return waited

    return run


@pytest.fixture
def reap(without_waiting: WithoutWaiting) -> Reap:
    async def reaped(ledger: object, clock: Clock, *, rounds: int) -> list[float]:
        work = reap_for_ever(ledger, clock, RunningCalls())
        return await without_waiting(work, clock, rounds=rounds)

    return reaped


async def test_an_overdue_hold_is_expired_and_a_running_one_is_left(
    reap: Reap, caplog: pytest.LogCaptureFixture
) -> None:
    ledger, clock = MemoryLedger(), Clock()
    for number, expires_at_ms in enumerate((5_000, 5_001)):
        reserved = await ledger.admit(
            AdmissionRequest(
                reservation_id=ReservationId(f"res_{number}"),
                call_id=CallId(f"call_{number}"),
                target=CallTarget(kind=CallKind.TOOL, name="time__now", upstream="files"),
                chain=CHAIN,
                session_name="run-1",
                estimate=Amounts({Unit.TOOL_CALLS: 1}),
                turn=None,
                now_ms=0,
                expires_at_ms=expires_at_ms,
            )
        )
        assert isinstance(reserved, Reserved)

    with caplog.at_level(logging.WARNING, logger="runtime.reaper"):
        waited = await reap(ledger, clock, rounds=1)

    assert waited == [EVERY_SECONDS]
    assert [record.call_id for record in ledger.records] == ["call_0"]
    assert [record.getMessage() for record in caplog.records] == [
        "hold of call_0 expired: nobody ended it"
    ]


@pytest.mark.requirement("ledger.down-at-settle-keeps-result")
@pytest.mark.parametrize("error", ERRORS)
async def test_a_ledger_that_fails_is_counted_and_asked_again(
    error: Exception,
    reap: Reap,
    failures: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger, clock = FailingLedger(error, error), Clock()

    with caplog.at_level(logging.ERROR, logger="runtime.reaper"):
        await reap(ledger, clock, rounds=4)

    assert ledger.asked_at_ms == [5_000, 10_000, 15_000, 20_000]
    assert failures == ["reaper", "reaper"]
    told = [] if error in AWAY else [True, True]
    assert [record.exc_info is not None for record in caplog.records] == told


@pytest.mark.parametrize("error", AWAY)
async def test_a_store_that_is_away_is_told_once_without_a_traceback_until_it_is_back(
    error: Exception,
    reap: Reap,
    failures: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = FailingLedger(error, error, error)

    with caplog.at_level(logging.INFO, logger="runtime.reaper"):
        await reap(away, Clock(), rounds=5)

    assert failures == ["reaper"] * 3
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"overdue holds could not be ended: {error}; it is tried until it works"),
        ("INFO", "overdue holds could not be ended for a while; now it works again"),
    ]
    assert all(record.exc_info is None for record in caplog.records)


async def test_old_records_are_removed_at_once_and_then_by_the_hour(
    without_waiting: WithoutWaiting,
) -> None:
    retention, clock = FailingRetention(), Clock()
    clock.at_ms = 10_000_000

    def rules(now_ms: int) -> tuple[KeepRule, ...]:
        return (KeepRule(before_ms=now_ms - 5),)

    purge = purge_for_ever(retention, clock, 9_000_000, experiences=rules)
    waited = await without_waiting(purge, clock, rounds=2)

    assert waited == [PURGE_EVERY_SECONDS] * 2
    assert retention.asked == [
        (1_000_000, 10_000_000),
        (4_600_000, 13_600_000),
        (8_200_000, 17_200_000),
    ]
    assert retention.rules == [17_200_000 - 5]


@pytest.mark.parametrize("error", ERRORS)
async def test_a_purge_that_fails_is_counted_and_tried_again(
    error: Exception,
    without_waiting: WithoutWaiting,
    failures: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    retention, clock = FailingRetention(error, error), Clock()

    with caplog.at_level(logging.ERROR, logger="runtime.reaper"):
        purge = purge_for_ever(retention, clock, 1, experiences=lambda _: ())
        await without_waiting(purge, clock, rounds=3)

    assert len(retention.asked) == 4
    assert failures == ["retention", "retention"]
    told = [] if error in AWAY else [True, True]
    assert [record.exc_info is not None for record in caplog.records] == told


async def test_sessions_that_rest_are_closed_a_while_after_the_gateway_left_them(
    without_waiting: WithoutWaiting,
) -> None:
    sessions, clock = FailingSessions(), Clock()

    work = close_idle_for_ever(sessions, clock, idle_ms=1_800_000)
    waited = await without_waiting(work, clock, rounds=2)

    assert waited == [IDLE_EVERY_SECONDS] * 2
    assert sessions.asked == [
        ("implicit_", now_ms - 1_800_000 - IDLE_GRACE_MS, "idle", now_ms)
        for now_ms in (60_000, 120_000)
    ]


@pytest.mark.parametrize("error", ERRORS)
async def test_sessions_that_cannot_be_closed_are_counted_and_tried_again(
    error: Exception,
    without_waiting: WithoutWaiting,
    failures: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    sessions, clock = FailingSessions(error, error), Clock()

    with caplog.at_level(logging.ERROR, logger="runtime.reaper"):
        await without_waiting(close_idle_for_ever(sessions, clock, idle_ms=1), clock, rounds=3)

    assert len(sessions.asked) == 3
    assert failures == ["idle_sessions", "idle_sessions"]
    told = [] if error in AWAY else [True, True]
    assert [record.exc_info is not None for record in caplog.records] == told


async def test_the_names_that_the_gateway_gives_are_those_that_are_closed(
    without_waiting: WithoutWaiting,
) -> None:
    sessions, clock = FailingSessions(), Clock()
    name = ImplicitSessions(clock=clock, idle_ms=1).name_for("tok_1")

    await without_waiting(close_idle_for_ever(sessions, clock, idle_ms=1), clock, rounds=1)

    (asked,) = sessions.asked
    assert name.startswith(asked[0])
