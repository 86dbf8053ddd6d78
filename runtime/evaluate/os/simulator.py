"""The same decisions about whole recorded sessions, without processes: a simulated schedule.

Time goes on in steps of one look. A call advances by a step's length where nothing holds it,
more slowly where processors are short, and its memory grows over the first half of it. What the
kernel does is modelled by its rules: it kills who holds most when nothing is left, and slows
down who is above `memory.high`. Nothing else of a machine is in here, so what comes out says
something about schedules and nothing about latencies in milliseconds.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

from governor.isolation import Asked, IsolationControl, Seen, weight_of
from runtime.evaluate.os.mixes import (
    MIB,
    SESSIONS,
    Mix,
    Part,
    Role,
    expectations,
    has_schedule,
)
from runtime.evaluate.os.outcome import Arm, Outcome, SessionOutcome
from runtime.evaluate.os.traces import Call, Trace

STEP_MS = 20
CALL_MS_MAX = 15_000
_PROCESSORS = 2.0
_SECOND_HALF = 2
_BYTES_PER_MS_MAX = 2_000_000  # memory is not touched faster than that
_EVEN_WEIGHT = 100
# As the kernel slows a task down above `memory.high`: a sleep after each batch of pages.
_BATCH_BYTES = 256 << 10
_PENALTY_MS_MAX = 2_000.0
_PENALTY_MS_OF_SQUARE = 64_000.0
_PENALTY_MS_MIN = 10.0


class _Phase(StrEnum):
    """Where a session is."""

    GAP = "gap"
    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"


@dataclass(slots=True, kw_only=True)
class _Session:
    """One session in the middle of its schedule."""

    part: Part
    phase: _Phase = _Phase.GAP
    index: int = 0
    left_ms: float = 0.0
    done_ms: float = 0.0
    asked_ms: int = 0
    ended_ms: int = 0
    walls_ms: list[float] = field(default_factory=list)
    nominal_ms: int = 0
    killed: int = 0
    timed_out: int = 0
    is_complete: bool = True
    is_frozen: bool = False

    @property
    def call(self) -> Call:
        """Return the call that runs or comes next."""
        return self.part.trace.calls[self.index]

    @property
    def growing_ms(self) -> float:
        """Return for how long of the call its memory grows."""
        fastest_ms = self.call.memory_bytes / _BYTES_PER_MS_MAX
        return max(1.0, self.call.duration_ms / _SECOND_HALF, fastest_ms)

    @property
    def takes_ms(self) -> float:
        """Return how long the call takes with nothing in its way."""
        return max(float(self.call.duration_ms), self.growing_ms)

    @property
    def call_bytes(self) -> int:
        """Return what the running call holds."""
        if self.phase is not _Phase.RUNNING:
            return 0
        return round(self.call.memory_bytes * min(1.0, self.done_ms / self.growing_ms))

    @property
    def memory_bytes(self) -> int:
        """Return what the session holds; one that lost what holds it together, nothing."""
        return 0 if self.phase is _Phase.OVER else self.part.trace.base_bytes + self.call_bytes

    @property
    def demand(self) -> float:
        """Return how much of a processor the running call uses while it goes on."""
        if self.phase is not _Phase.RUNNING or self.is_frozen:
            return 0.0
        return min(1.0, self.call.cpu_ms / self.call.duration_ms)


def all_mixes(
    traces: Sequence[Trace], *, memory_bytes: int, seed: int, rounds: int
) -> tuple[Mix, ...]:
    """Return whole sessions in threes, each once a round; what has no schedule is left out."""
    chance = random.Random(f"{seed} {memory_bytes} all")  # noqa: S311 - a draw is no secret
    found: list[Mix] = []
    for _ in range(rounds):
        drawn = chance.sample(traces, len(traces))
        for start in range(0, len(drawn) - SESSIONS + 1, SESSIONS):
            three = drawn[start : start + SESSIONS]
            if has_schedule(three, memory_bytes):
                parts = tuple(
                    Part(
                        role=role,
                        trace=trace,
                        expected=expectations(traces, without=trace.task),
                    )
                    for role, trace in zip(Role, three, strict=True)
                )
                found.append(Mix(number=len(found), parts=parts))
    return tuple(found)


def simulate(mix: Mix, arm: Arm, *, memory_bytes: int) -> Outcome:
    """Return how a mix would fare in an arm, by the model."""
    if arm is not Arm.ALONE:
        return _Simulation(mix, mix.parts, arm, memory_bytes).outcome()
    alone = [_Simulation(mix, (part,), arm, memory_bytes).outcome() for part in mix.parts]
    return Outcome(
        mix=mix.number,
        arm=arm,
        memory_mib=memory_bytes // MIB,
        sessions=[one.sessions[0] for one in alone],
        makespan_ms=sum(one.makespan_ms for one in alone),
        wasted_mib_s=0.0,
        overshoot_bytes=None,
        leaked=0,
    )


class _Simulation:
    """One mix in one arm."""

    def __init__(self, mix: Mix, parts: Sequence[Part], arm: Arm, memory_bytes: int) -> None:
        self._mix = mix
        self._arm = arm
        self._memory_bytes = memory_bytes
        self._share_bytes = memory_bytes // max(1, len(parts))
        self._sessions = [_Session(part=part) for part in parts]
        self._isolation = IsolationControl() if arm.is_governed else None
        self._mib_s = 0.0
        self._freezes = self._frozen_ms = 0
        self._delayed: set[tuple[Role, int]] = set()

    def outcome(self) -> Outcome:
        """Run to the end; return what it came to."""
        for one in self._sessions:
            one.left_ms = one.call.gap_ms
        now_ms = 0
        for now_ms in count(0, STEP_MS):
            if all(one.phase is _Phase.OVER for one in self._sessions):
                break
            self._step(now_ms)
        return Outcome(
            mix=self._mix.number,
            arm=self._arm,
            memory_mib=self._memory_bytes // MIB,
            sessions=[_outcome(one) for one in self._sessions],
            makespan_ms=float(now_ms),
            wasted_mib_s=self._mib_s,
            overshoot_bytes=None,
            leaked=0,
            freezes=self._freezes,
            frozen_ms=self._frozen_ms,
            delayed=len(self._delayed),
        )

    def _step(self, now_ms: int) -> None:
        for one in self._sessions:
            if one.phase is _Phase.GAP:
                one.left_ms -= STEP_MS
                if one.left_ms <= 0:
                    one.phase, one.asked_ms = _Phase.WAITING, now_ms
        self._admit(now_ms)
        granted = self._granted()
        for one, speed in zip(self._sessions, granted, strict=True):
            if one.phase is _Phase.RUNNING and not one.is_frozen:
                self._advance(one, speed, now_ms)
        self._kill_for_memory(now_ms)
        self._count_waste()

    def _admit(self, now_ms: int) -> None:
        if self._isolation is None:
            for one in self._sessions:
                if one.phase is _Phase.WAITING:
                    one.phase, one.done_ms = _Phase.RUNNING, 0.0
            return
        seen = self._seen()
        arranged = self._isolation.arrange(seen, capacity_bytes=self._memory_bytes, now_ms=now_ms)
        for one in self._sessions:
            is_frozen = one.part.role.value in arranged.frozen
            self._freezes += is_frozen and not one.is_frozen
            self._frozen_ms += STEP_MS * is_frozen
            one.is_frozen = is_frozen
        waiting = [one for one in self._sessions if one.phase is _Phase.WAITING]
        place = self._isolation.next_in(
            [self._asked(one) for one in waiting],
            seen,
            capacity_bytes=self._memory_bytes,
            now_ms=now_ms,
        )
        if place is not None:
            waiting[place].phase, waiting[place].done_ms = _Phase.RUNNING, 0.0
        self._delayed |= {
            (one.part.role, one.index) for one in waiting if one.phase is _Phase.WAITING
        }

    def _seen(self) -> list[Seen]:
        return [
            Seen(
                session=one.part.role.value,
                priority=one.part.role.priority,
                memory_bytes=one.memory_bytes,
                calls_bytes=one.call_bytes,
                expected_bytes=self._expected(one) if one.phase is _Phase.RUNNING else 0,
                calls=int(one.phase is _Phase.RUNNING),
            )
            for one in self._sessions
            if one.phase is not _Phase.OVER
        ]

    def _expected(self, one: _Session) -> int:
        return one.part.expected_bytes(one.call, declared=self._arm is Arm.DECLARED)

    def _asked(self, one: _Session) -> Asked:
        return Asked(
            session=one.part.role.value,
            priority=one.part.role.priority,
            expected_bytes=self._expected(one),
            waiting_since_ms=one.asked_ms,
        )

    def _granted(self) -> list[float]:
        """Return how fast each session's call goes on: its part of what it wants, by weight."""
        left, speeds = _PROCESSORS, [1.0] * len(self._sessions)
        wanting = [number for number, one in enumerate(self._sessions) if one.demand > 0]
        while wanting:
            weights = {number: self._weight(self._sessions[number]) for number in wanting}
            fair = left / sum(weights.values())
            content = [n for n in wanting if self._sessions[n].demand <= fair * weights[n]]
            if not content:
                for number in wanting:
                    speeds[number] = fair * weights[number] / self._sessions[number].demand
                break
            left -= sum(self._sessions[number].demand for number in content)
            wanting = [number for number in wanting if number not in content]
        return speeds

    def _weight(self, one: _Session) -> int:
        return _EVEN_WEIGHT if self._isolation is None else weight_of(one.part.role.priority)

    def _advance(self, one: _Session, speed: float, now_ms: int) -> None:
        step_ms = STEP_MS * speed
        if self._arm is Arm.MEMORY_HIGH and one.done_ms < one.growing_ms:
            step_ms = min(step_ms, self._slowed_ms(one))
        one.done_ms += step_ms
        if one.done_ms >= one.takes_ms:
            one.walls_ms.append(float(now_ms + STEP_MS - one.asked_ms))
            one.nominal_ms += one.call.duration_ms
            _next(one, now_ms + STEP_MS)
        elif now_ms - one.asked_ms > CALL_MS_MAX and self._isolation is None:
            one.timed_out, one.is_complete = 1, False
            _end(one, now_ms)

    def _slowed_ms(self, one: _Session) -> float:
        """Return by how much a call above its `memory.high` can grow in a step, as time."""
        over = (one.memory_bytes - self._share_bytes) / self._share_bytes
        penalty_ms = min(_PENALTY_MS_MAX, _PENALTY_MS_OF_SQUARE * over * over)
        if over <= 0 or penalty_ms < _PENALTY_MS_MIN or not one.call.memory_bytes:
            return float(STEP_MS)
        grown_bytes = _BATCH_BYTES * STEP_MS / penalty_ms
        return grown_bytes * one.growing_ms / one.call.memory_bytes

    def _kill_for_memory(self, now_ms: int) -> None:
        if self._arm is Arm.STATIC:
            for one in self._sessions:
                if one.memory_bytes > self._share_bytes:
                    _kill(one, now_ms)
        while sum(one.memory_bytes for one in self._sessions) > self._memory_bytes:
            _kill(max(self._sessions, key=_largest_process), now_ms)

    def _count_waste(self) -> None:
        used = sum(one.memory_bytes for one in self._sessions)
        aside = 0
        if self._arm in {Arm.STATIC, Arm.MEMORY_HIGH}:
            aside = self._memory_bytes
        elif self._isolation is not None:
            aside = sum(one.memory_bytes + self._isolation.growth_of(one) for one in self._seen())
        self._mib_s += max(0, aside - used) / MIB * STEP_MS / 1000


def _largest_process(one: _Session) -> int:
    if one.phase is _Phase.OVER:
        return 0
    return max(one.part.trace.base_bytes, one.call_bytes)


def _kill(one: _Session, now_ms: int) -> None:
    """Kill the largest process of a session, as the kernel does: its call or what is beneath."""
    one.killed += 1
    if one.call_bytes > one.part.trace.base_bytes or one.call_bytes == _largest_process(one):
        _next(one, now_ms)
    else:
        one.is_complete = False
        _end(one, now_ms)


def _next(one: _Session, now_ms: int) -> None:
    one.is_frozen = False
    if one.index + 1 == len(one.part.trace.calls):
        _end(one, now_ms)
    else:
        one.index += 1
        one.phase, one.left_ms = _Phase.GAP, one.call.gap_ms


def _end(one: _Session, now_ms: int) -> None:
    one.phase, one.ended_ms, one.is_frozen = _Phase.OVER, now_ms, False


def _outcome(one: _Session) -> SessionOutcome:
    return SessionOutcome(
        role=one.part.role,
        walls_ms=one.walls_ms,
        steps_us=(),
        done_nominal_ms=one.nominal_ms,
        session_ms=float(one.ended_ms),
        killed=one.killed,
        timed_out=one.timed_out,
        is_complete=one.is_complete,
    )
