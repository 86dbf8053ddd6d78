"""The turnstile that every call passes on its way to an upstream.

It stands before admission, so that no hold waits in a queue, but for that of a call that a
person was asked about: it is older than their answer. A call that finds a slot of its
upstream free goes through without a pause. One that does not waits in the fair queue of that
upstream and is told to come back later where waiting would not help: the queue's places are
taken, its deadline would pass, the machine is short of something.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self

import anyio

from governor.breaker import Permit, Sign
from governor.call import CallStatus, ToolCall
from governor.denial import Denied
from governor.fairness.adaptive import Ending
from governor.fairness.claim import Priority
from governor.fairness.gate import Gate
from governor.fairness.shedding import Pressure
from governor.fairness.tree import Waiting
from governor.target import CallKind
from tool_gateway import telemetry
from tool_gateway.breakers import Breakers, UpstreamBreaker
from tool_gateway.contention import Contention, Standings
from tool_gateway.denials import contended
from tool_gateway.lane import Lane
from tool_gateway.ports import Clock

# The kernel's average is over ten seconds: asking sooner finds about the same.
SHED_RETRY_MS = 5_000
_NOTHING_DUE_MS = 60_000
_GOING_AWAY = "The sidecar is shutting down."
_ENDINGS = {
    CallStatus.OK: Ending.ANSWERED,
    CallStatus.TOOL_ERROR: Ending.ANSWERED,
    CallStatus.LIMIT_HIT: Ending.ANSWERED,
    CallStatus.TIMED_OUT: Ending.OVERLOADED,
}

PressureGauge = Callable[[], Pressure | None]


class Turnstile:
    """The lanes of all upstreams and model providers."""

    def __init__(
        self,
        contention: Contention,
        *,
        clock: Clock,
        pressure: PressureGauge | None = None,
        exempt: frozenset[str] = frozenset(),
        breakers: Breakers | None = None,
        provider_breakers: Breakers | None = None,
    ) -> None:
        """Take the terms; calls of the backends in `exempt` never wait.

        Calls of tools pass the `breakers` of their upstreams, too, and those of models the
        `provider_breakers`.
        """
        self._breakers = {CallKind.TOOL: breakers, CallKind.MODEL: provider_breakers}
        self._contention = contention
        self._standings = Standings(contention)
        self._clock = clock
        self._pressure = pressure if contention.thresholds.of else None
        self._calm: Pressure | None = None
        self._exempt = exempt
        self._lanes: dict[tuple[CallKind, str], Lane] = {}
        self._nudge = anyio.Event()
        self._closed = False

    def entered(
        self,
        call: ToolCall,
        *,
        kind: CallKind,
        backend: str,
        reaches_it: bool = True,
        goes_on: bool = False,
    ) -> "Passage":
        """Return the passage of one call, which has no slot before its `turn`.

        One that never `reaches_it`, its backend, is not turned away because that fails. One that
        `goes_on` with what began before may pass when nothing new may.
        """
        breakers = self._breakers.get(kind) if reaches_it else None
        breaker = None if breakers is None else breakers.of(backend)
        passage = Passage(self, call, self._lane(kind, backend), self._clock, breaker=breaker)
        if self._closed and not goes_on:
            telemetry.count_shed(backend=backend, reason="closed")
            passage.denied = contended(_GOING_AWAY, retry_after_ms=SHED_RETRY_MS)
        return passage

    def priority_of(self, call: ToolCall) -> Priority:
        """Return what the call asks for, as far as its rule lets it."""
        return self._standings.priority_of(call)

    def limit_of(self, kind: CallKind, backend: str) -> int | None:
        """Return how many calls of a backend may run at once now; None before its first call."""
        lane = self._lanes.get((kind, backend))
        return None if lane is None else lane.gate.limit

    def close(self) -> None:
        """Turn away who waits, and whoever comes: the sidecar is going away."""
        self._closed = True
        for lane in self._lanes.values():
            lane.turn_all_away()

    async def keep_pace(self) -> None:
        """Start those who wait for the pace of a commons, as long as this runs."""
        while True:
            self._nudge = anyio.Event()
            due = [lane.start_due() for lane in self._lanes.values()]
            now_ms = self._clock.elapsed_ms()
            soonest_ms = min(
                (due_ms for due_ms in due if due_ms is not None), default=now_ms + _NOTHING_DUE_MS
            )
            wait_ms = max(0, soonest_ms - now_ms)
            with anyio.move_on_after(wait_ms / 1000):
                await self._nudge.wait()

    async def turn_of(self, call: ToolCall, lane: Lane, now_ms: int) -> Waiting | Denied:
        """Wait in the lane until the call may start, or return why it may not."""
        if self._closed:
            return lane.denied("closed", _GOING_AWAY)
        claim = self._standings.claim_of(call, now_ms)
        if lane.gate.terms.quota is not None:
            self._look_again()
        return await lane.turn_of(claim, now_ms)

    def _look_again(self) -> None:
        """Have whoever keeps the pace find out anew when the next one is due."""
        self._nudge.set()

    def shed(self, call: ToolCall, lane: Lane) -> Denied | None:
        """Return the denial of a call that the machine has no room for."""
        pressure = None if self._pressure is None else self._pressure()
        if pressure is None or pressure is self._calm:
            return None
        sheds = self._contention.thresholds.sheds
        if not any(sheds(pressure, priority) for priority in Priority):
            # A reading stands for a second; the calls in between need not look again.
            self._calm = pressure
            return None
        priority = self._standings.priority_of(call)
        shed = sheds(pressure, priority)
        if shed is None:
            return None
        telemetry.count_shed(backend=lane.name, reason=f"pressure_{shed.resource}")
        return contended(
            f"The machine is short of {shed.resource}: something waits for it "
            f"{shed.measured // 100} % of the time, and calls of {priority.value} priority "
            f"start below {shed.threshold // 100} %.",
            retry_after_ms=SHED_RETRY_MS,
        )

    def _lane(self, kind: CallKind, backend: str) -> Lane | None:
        lane = self._lanes.get((kind, backend))
        if lane is None and self._contention.enabled and backend not in self._exempt:
            # Backends are configured, so there are only so many lanes.
            terms = self._contention.gates.get(backend, self._contention.gate)
            lane = self._lanes[kind, backend] = Lane(
                backend, Gate(terms), clock=self._clock, paced=self._look_again
            )
        return lane


class Passage:
    """One call's way through: it holds a slot from its `turn` to the end of the `with` block."""

    __slots__ = (
        "_began_ms",
        "_breaker",
        "_call",
        "_clock",
        "_has_slot",
        "_lane",
        "_permit",
        "_turnstile",
        "_waited",
        "denied",
    )

    def __init__(
        self,
        turnstile: Turnstile,
        call: ToolCall,
        lane: Lane | None,
        clock: Clock,
        *,
        breaker: UpstreamBreaker | None = None,
    ) -> None:
        """Take the call, its lane and its upstream's breaker; None is an open door."""
        self._turnstile = turnstile
        self._call = call
        self._lane = lane
        self._clock = clock
        self._breaker = breaker
        self._permit: Permit | None = None
        self._waited: Waiting | None = None
        self._began_ms = 0
        self._has_slot = False
        self.denied: Denied | None = None

    @property
    def has_waited(self) -> bool:
        """Tell whether the call had to wait, so that what it knew of the time is old."""
        return self._waited is not None

    def turned_away(self) -> Denied | None:
        """Return why the call would get nowhere, whatever slots there are."""
        if self.denied is not None or self._breaker is None:
            return self.denied
        return self._breaker.refused()

    def at_once(self) -> bool:
        """Take a slot if one is free; tell whether `turn` has nothing to wait for."""
        lane = self._lane
        if self._is_through or self.denied is not None:
            return True
        self.denied = self.turned_away()
        if self.denied is None and lane is not None:
            self.denied = self._turnstile.shed(self._call, lane)
            if self.denied is None:
                self._began_ms = self._clock.elapsed_ms()
                self._has_slot = lane.gate.pass_at_once(self._began_ms)
        if self.denied is None and (lane is None or self._has_slot):
            self._take_permit()
            return True
        return self.denied is not None

    async def turn(self) -> Denied | None:
        """Wait for a slot unless there is one already, or return why the call may not leave."""
        if self.at_once():
            return self.denied
        assert self._lane is not None, "an open door is passed at once"
        turn = await self._turnstile.turn_of(self._call, self._lane, self._began_ms)
        if isinstance(turn, Denied):
            # What opened the breaker while the call waited is the better reason.
            self.denied = self.turned_away() or turn
            return self.denied
        self._waited = turn
        self._began_ms = self._clock.elapsed_ms()
        self._has_slot = True
        self._take_permit()
        return self.denied

    @property
    def _is_through(self) -> bool:
        """Tell whether the call has all that it needs to leave."""
        has_slot = self._lane is None or self._has_slot
        return has_slot and (self._breaker is None or self._permit is not None)

    def _take_permit(self) -> None:
        if self._breaker is None:
            return
        answer = self._breaker.let_through()
        if isinstance(answer, Denied):
            self.denied = answer
        else:
            self._permit = answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the slot back, and the permit if nobody said how the call ended."""
        self._give_back(Sign.NOTHING)
        if self._lane is not None and self._has_slot:
            self._lane.leave(self._waited, held_ms=self._clock.elapsed_ms() - self._began_ms)

    def note(
        self,
        status: CallStatus,
        *,
        wall_ms: int,
        refused_for_load: bool = False,
        sign: Sign = Sign.NOTHING,
    ) -> None:
        """Tell the upstream's limit how the call went, which took `wall_ms` there.

        `sign` is what that says of the upstream itself.
        """
        lane = self._lane
        if self._give_back(sign) and lane is not None:
            lane.turn_all_away()
        if lane is None:
            return
        ended_ms = self._clock.elapsed_ms()
        ending = _ENDINGS.get(status, Ending.SAYS_NOTHING)
        moved = lane.gate.observe(
            Ending.OVERLOADED if refused_for_load else ending,
            kind=self._call.tool,
            began_ms=ended_ms - wall_ms,
            ended_ms=ended_ms,
        )
        if moved:
            telemetry.show_limit(backend=lane.name, limit=lane.gate.limit)
            lane.make_use_of_room()

    def _give_back(self, sign: Sign) -> bool:
        """Give the permit back; tell whether the breaker opened over it."""
        permit, self._permit = self._permit, None
        return (
            permit is not None and self._breaker is not None and self._breaker.ended(permit, sign)
        )
