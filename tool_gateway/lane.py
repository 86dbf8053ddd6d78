"""The lane in front of one upstream: the gate's decisions, and the tasks that wait for them."""

from collections.abc import Callable

import anyio

from governor.denial import Denied
from governor.fairness.claim import Claim
from governor.fairness.gate import Gate, TooLate
from governor.fairness.queue import Full, Queued
from governor.fairness.tree import Stage, Waiting
from tool_gateway import telemetry
from tool_gateway.denials import contended
from tool_gateway.ports import Clock


class Lane:
    """Lets calls of one upstream start when the gate says that it is their turn."""

    __slots__ = ("_clock", "_paced", "_woken", "gate", "name")

    def __init__(self, name: str, gate: Gate, *, clock: Clock, paced: Callable[[], None]) -> None:
        """Begin with nobody waiting; `paced` hears that only the pace holds the next one up."""
        self.name = name
        self.gate = gate
        self._clock = clock
        self._paced = paced
        self._woken: dict[Waiting, anyio.Event] = {}
        telemetry.show_limit(backend=name, limit=gate.limit)

    async def turn_of(self, claim: Claim, began_ms: int) -> Waiting | Denied:
        """Return when the claim has a slot, or why it gets none."""
        match self.gate.wait(claim, began_ms):
            case Full(scope=scope):
                return self._full(claim, scope)
            case TooLate(wait_ms=wait_ms):
                return self.denied(
                    "too_late",
                    f"{self.name} is busy: the call would start in about {wait_ms} ms, which is "
                    "past its deadline.",
                )
            case Queued(waiting=waiting, displaced=displaced):
                if displaced is not None:
                    self._woken.pop(displaced).set()
                await self._wait(waiting, claim.expires_ms - began_ms)
                waited_ms = self._clock.elapsed_ms() - began_ms
                telemetry.note_wait(backend=self.name, wait_ms=waited_ms)
        if waiting.stage is Stage.STARTED:
            return waiting
        if waiting.stage is Stage.DISPLACED:
            return self._full(claim, "upstream")
        return self.denied(
            "waited", f"{self.name} is busy: the call did not start within {waited_ms} ms."
        )

    def start_due(self) -> int | None:
        """Start whose turn it is; return when the pace lets the next one start, if it is that."""
        now_ms = self._clock.elapsed_ms()
        for waiting in self.gate.start_due(now_ms):
            self._woken.pop(waiting).set()
        return self.gate.due_ms()

    def leave(self, waited: Waiting | None, *, held_ms: int) -> None:
        """Give a slot back, to whoever is next."""
        self.gate.leave(waited, held_ms=held_ms)
        self.make_use_of_room()

    def make_use_of_room(self) -> None:
        """Start whose turn it is, now that there may be a slot that was not there before."""
        if self._woken and self.start_due() is not None:
            self._paced()

    def turn_all_away(self) -> None:
        """End every wait without a slot."""
        for waiting, woken in self._woken.items():
            self.gate.give_up(waiting)
            woken.set()
        self._woken.clear()

    def denied(self, reason: str, why: str) -> Denied:
        """Return the denial of a call that gets no slot now."""
        telemetry.count_shed(backend=self.name, reason=reason)
        now_ms = self._clock.elapsed_ms()
        return contended(why, retry_after_ms=self.gate.retry_after_ms(now_ms))

    async def _wait(self, waiting: Waiting, patience_ms: int) -> None:
        """Wait for the slot; one that comes as the task is cancelled goes to the next."""
        woken = self._woken[waiting] = anyio.Event()
        telemetry.count_waiting(backend=self.name, change=1)
        try:
            with anyio.move_on_after(patience_ms / 1000):
                await woken.wait()
        except BaseException:
            if waiting.stage is Stage.STARTED:
                self.leave(waiting, held_ms=0)
            raise
        finally:
            telemetry.count_waiting(backend=self.name, change=-1)
            self._woken.pop(waiting, None)
            if waiting.stage is Stage.WAITING:
                self.gate.give_up(waiting)

    def _full(self, claim: Claim, scope: str) -> Denied:
        share = self.gate.share_of(claim)
        yours = "" if share is None else f" Your fair share is {share} calls a minute."
        return self.denied(
            f"full_{scope}", f"Too many calls of this {scope} wait for {self.name}.{yours}"
        )
