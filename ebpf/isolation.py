"""Applies the decisions of `governor.isolation` to the control groups of sessions.

Calls of a session are announced here before they start and wait while their estimate does not
fit. While calls of several sessions run, their groups are looked at again and again: often where
memory is short or a more important session waits for processors, seldom otherwise, and at once
when the kernel tells of pressure.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint

from ebpf.errors import DomainError
from ebpf.pressure_trigger import PressureTrigger
from ebpf.session_group import SessionGroup
from governor.fairness.claim import Priority
from governor.isolation import Arrangement, Asked, IsolationControl, Seen

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.02
LOOK_SECONDS_AT_EASE = 0.1
_US_PER_MS = 1_000
_PERCENT = 100
# At ease: a quarter of the memory is free, beyond what running calls may still take.
_EASE_DIVISOR = 4

# What a call takes of which nobody knows anything, until it shows.
UNKNOWN_BYTES = 32 << 20

GroupOf = Callable[[str], SessionGroup | None]


def _unheard(session: str, *, is_still: bool) -> None:
    """Tell nobody."""


class Stood(Protocol):
    """Hears which session stands still, and which goes on."""

    def __call__(self, session: str, *, is_still: bool) -> None:
        """Take note."""


@dataclass(slots=True)
class _Rate:
    """How fast a counter of microseconds moves between two looks."""

    last_us: int | None = None
    last_ms: int = 0

    def percent(self, now_us: int | None, now_ms: int) -> int | None:
        """Return the percentage of the time since the last look; None is unknown."""
        before_us, past_ms = self.last_us, now_ms - self.last_ms
        if now_us is not None and before_us is not None and past_ms <= 0:
            return None  # the next look counts from the last one still
        self.last_us, self.last_ms = now_us, now_ms
        if now_us is None or before_us is None:
            return None
        return (now_us - before_us) * _PERCENT // (past_ms * _US_PER_MS)


@dataclass(slots=True, kw_only=True)
class _Session:
    """One session with calls, and what the last look found."""

    priority: Priority
    expected: dict[int, int] = field(default_factory=dict)
    resting_bytes: int | None = None
    waited: _Rate = field(default_factory=_Rate)
    used: _Rate = field(default_factory=_Rate)
    frozen_since_ms: int | None = None
    is_lasting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What isolation has done so far."""

    delayed: int
    freezes: int
    frozen_ms: int
    refused_by_kernel: int


class Isolator:
    """Keeps sessions that share a machine from hurting one another."""

    def __init__(
        self,
        isolation: IsolationControl,
        *,
        group_of: GroupOf,
        capacity_of: Callable[[int], int],
        elapsed_ms: Callable[[], int],
        stood: Stood = _unheard,
    ) -> None:
        """Take the decision maker and where the groups of sessions are.

        `capacity_of` tells what there is to share when the sessions hold so much. `stood` hears
        of sessions that stand still.
        """
        self._stood = stood
        self._isolation = isolation
        self._group_of = group_of
        self._capacity_of = capacity_of
        self._capacity_bytes = capacity_of(0)
        self._elapsed_ms = elapsed_ms
        self._sessions: dict[str, _Session] = {}
        self._groups: dict[str, SessionGroup] = {}
        self._seen: tuple[Seen, ...] = ()
        self._waiting: list[tuple[Asked, anyio.Event]] = []
        self._number = 0
        self._wake = anyio.Event()
        self._delayed = self._freezes = self._refused = 0
        self._frozen_ms = 0

    @property
    def counted(self) -> Counted:
        """Return what was done so far."""
        return Counted(
            delayed=self._delayed,
            freezes=self._freezes,
            frozen_ms=self._frozen_ms,
            refused_by_kernel=self._refused,
        )

    @property
    def promised_bytes(self) -> int:
        """Return what is set aside for the calls that run, as of the last look."""
        return sum(one.memory_bytes + self._isolation.growth_of(one) for one in self._seen)

    def present(self, session: str, priority: Priority) -> None:
        """Take note of a session that holds memory between its calls as well."""
        self._sessions.setdefault(session, _Session(priority=priority)).is_lasting = True

    @asynccontextmanager
    async def call(
        self, session: str, priority: Priority, *, expected_bytes: int | None = None
    ) -> AsyncIterator[None]:
        """Hold the place of one call, which is not entered before there is room for it."""
        expected_bytes = UNKNOWN_BYTES if expected_bytes is None else expected_bytes
        asked = Asked(
            session=session,
            priority=priority,
            expected_bytes=expected_bytes,
            waiting_since_ms=self._elapsed_ms(),
        )
        await self._admitted(asked)
        one = self._sessions.setdefault(session, _Session(priority=priority))
        one.priority = priority
        self._number += 1
        number = self._number
        one.expected[number] = expected_bytes
        self._look()
        self._wake.set()
        try:
            yield
        finally:
            del one.expected[number]
            self._after_end(session, one)

    async def run(self) -> None:
        """Look at the sessions as long as this runs; thaw whatever is frozen at the end."""
        try:
            while True:
                self._wake = anyio.Event()
                self._look()
                self._let_in()
                with anyio.move_on_after(self._pause_seconds()):
                    await self._wake.wait()
                await checkpoint()
        finally:
            for name in self._sessions:
                self._apply_frozen(name, is_frozen=False)

    async def wake_by(self, trigger: PressureTrigger) -> None:
        """Look at once whenever the kernel tells of pressure, as long as this runs."""
        with suppress(DomainError):  # without it there is still the clock
            while True:
                await trigger.wait()
                self._wake.set()

    async def _admitted(self, asked: Asked) -> None:
        event = anyio.Event()
        place = (asked, event)
        self._waiting.append(place)
        try:
            self._let_in()
            if not event.is_set():
                self._delayed += 1
                self._wake.set()
                await event.wait()
        finally:
            if place in self._waiting:
                self._waiting.remove(place)

    def _let_in(self) -> None:
        """Admit who fits now, one at each look: the next look counts what it was promised."""
        number = self._isolation.next_in(
            [asked for asked, _ in self._waiting],
            self._seen,
            capacity_bytes=self._capacity_bytes,
            now_ms=self._elapsed_ms(),
        )
        if number is not None:
            _, event = self._waiting.pop(number)
            event.set()

    def _after_end(self, session: str, one: _Session) -> None:
        if not one.expected:
            self._apply_frozen(session, is_frozen=False)
            # Its group may be gone with its last call, and what stood still with it.
            self._stood(session, is_still=False)
            if not one.is_lasting:
                self._sessions.pop(session, None)
                self._groups.pop(session, None)
        self._look()
        self._let_in()
        self._wake.set()

    def _pause_seconds(self) -> float | None:
        """Return how long to wait for the next look; None where one alone has calls."""
        busy = [one for one in self._seen if one.calls]
        if self._waiting or any(one.frozen_since_ms is not None for one in self._sessions.values()):
            return LOOK_SECONDS
        if len(busy) <= 1:
            return None
        room = self._capacity_bytes - self.promised_bytes
        disturbed = any((one.stall_percent or 0) > 0 for one in busy)
        is_at_ease = room > self._capacity_bytes // _EASE_DIVISOR and not disturbed
        return LOOK_SECONDS_AT_EASE if is_at_ease else LOOK_SECONDS

    def _look(self) -> None:
        now_ms = self._elapsed_ms()
        self._seen = tuple(self._see(name, one, now_ms) for name, one in self._sessions.items())
        # What cannot be read now is taken to be as it was.
        with suppress(DomainError):
            self._capacity_bytes = self._capacity_of(sum(one.memory_bytes for one in self._seen))
        self._apply(
            self._isolation.arrange(self._seen, capacity_bytes=self._capacity_bytes, now_ms=now_ms)
        )

    def _see(self, name: str, one: _Session, now_ms: int) -> Seen:
        """Return the session as it stands."""
        group = self._groups.get(name)
        if group is None:
            group = self._group_of(name)
            if group is None:
                return self._unseen(name, one)
            self._groups[name] = group
        try:
            held = group.held_bytes()
        except DomainError:
            # Its last call is over and took the group along; the next call has another.
            del self._groups[name]
            self._note_moving(name, one)
            return self._unseen(name, one)
        if not one.expected or one.resting_bytes is None:
            one.resting_bytes = held
        return Seen(
            session=name,
            priority=one.priority,
            memory_bytes=held,
            calls_bytes=max(0, held - one.resting_bytes),
            expected_bytes=sum(one.expected.values()),
            calls=len(one.expected),
            stall_percent=one.waited.percent(group.processor_wait_us(), now_ms),
            busy_percent=one.used.percent(group.processor_used_us(), now_ms),
        )

    def _unseen(self, name: str, one: _Session) -> Seen:
        """Return a session without a group: nothing held, and all that is expected to come."""
        one.resting_bytes = 0
        return Seen(
            session=name,
            priority=one.priority,
            memory_bytes=0,
            expected_bytes=sum(one.expected.values()),
            calls=len(one.expected),
        )

    def _apply(self, arrangement: Arrangement) -> None:
        for name, weight in arrangement.weights.items():
            group = self._groups.get(name)
            if group is None:
                continue
            try:
                group.set_weight(weight)
                group.protect(arrangement.protected_bytes[name])
            except DomainError as error:
                self._note_refusal(name, error)
            self._apply_frozen(name, is_frozen=name in arrangement.frozen)

    def _apply_frozen(self, name: str, *, is_frozen: bool) -> None:
        one, group = self._sessions[name], self._groups.get(name)
        if group is None or is_frozen == (one.frozen_since_ms is not None):
            return
        try:
            if is_frozen:
                group.freeze()
            else:
                group.thaw()
        except DomainError as error:
            self._note_refusal(name, error)
            return
        if is_frozen:
            self._freezes += 1
            one.frozen_since_ms = self._elapsed_ms()
            self._stood(name, is_still=True)
        else:
            self._note_moving(name, one)

    def _note_moving(self, name: str, one: _Session) -> None:
        """Take note of a session that goes on, or whose group is gone with what stood still."""
        if one.frozen_since_ms is not None:
            self._frozen_ms += self._elapsed_ms() - one.frozen_since_ms
            one.frozen_since_ms = None
            self._stood(name, is_still=False)

    def _note_refusal(self, name: str, error: DomainError) -> None:
        """Count what the kernel refused; a group that went with its last call refuses nothing."""
        group = self._groups.get(name)
        if group is not None and group.exists:
            self._refused += 1
            logger.warning("isolation of %s: %s", name, error)
