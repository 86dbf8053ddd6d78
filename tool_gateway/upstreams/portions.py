"""What each call takes of the server that runs it, where others may run in it at the same time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from governor.amounts import Amounts, Unit
from governor.usage import Usage
from tool_gateway.server_ports import ServerUse

SAMPLE_SECONDS = 0.1
LOST = "the server ended before this was measured"
_SCALE = 1_000_000
_MIB = 1024 * 1024


@dataclass(slots=True, eq=False)
class Portion:
    """One request's part so far, and with how many others it had to divide at the most.

    A request that was alone has what the server used meanwhile: that is measured. While several
    are in flight nobody can tell them apart, and each has the same part of every moment: that is
    an estimate, whose sum is what the server used.
    """

    others: int = 0
    is_lost: bool = False
    _parts: dict[Unit, int] = field(default_factory=dict)

    def add(self, unit: Unit, amount_scaled: int) -> None:
        """Add to the part."""
        self._parts[unit] = self._parts.get(unit, 0) + amount_scaled

    def lose(self) -> None:
        """Note that something of it can no longer be known."""
        self.is_lost = True

    def usage(self) -> Usage:
        """Return the part as a call's usage."""
        if self.is_lost:
            units = (Unit.CPU_MS, Unit.MEMORY_MIB_S, *self._parts)
            return Usage(measured=Amounts({}), unmeasured=dict.fromkeys(units, LOST))
        parts = {unit: -(-scaled // _SCALE) for unit, scaled in self._parts.items()}
        return Usage(measured=Amounts(parts), divided=tuple(parts) if self.others else ())


class Portions:
    """Divides what one server uses between the requests that are in flight."""

    def __init__(self, read: Callable[[], ServerUse | None]) -> None:
        """Take what reads how much the server has used; None where nobody can say."""
        self._read = read
        self._in_flight: set[Portion] = set()
        self._last: tuple[float, ServerUse] | None = None
        self._busy = anyio.Event()

    @contextmanager
    def entered(self) -> Iterator[Portion]:
        """Yield the part of a request that is in flight during the block."""
        self._note()
        portion = Portion(is_lost=self._last is None)
        self._in_flight.add(portion)
        for one in self._in_flight:
            one.others = max(one.others, len(self._in_flight) - 1)
        self._busy.set()
        try:
            yield portion
        finally:
            self._note()
            self._in_flight.discard(portion)

    async def sample(self) -> None:
        """Look now and again while something is in flight, until cancelled.

        Memory is a line between two looks, and a long request may take and give back much.
        """
        while True:
            await self._busy.wait()
            self._busy = anyio.Event()
            while self._in_flight:
                await anyio.sleep(SAMPLE_SECONDS)
                self._note()

    def _note(self) -> None:
        """Give each that is in flight its part of what was used since the last look."""
        at, use, last = anyio.current_time(), self._read(), self._last
        self._last = None if use is None else (at, use)
        if not self._in_flight:
            return
        if use is None or last is None or last[1].life != use.life:
            for portion in self._in_flight:
                portion.lose()
            return
        began, before = last
        for unit, amount in _used(before, use, seconds=at - began):
            part = amount // len(self._in_flight)
            for portion in self._in_flight:
                portion.add(unit, part)


def _used(before: ServerUse, now: ServerUse, *, seconds: float) -> Iterator[tuple[Unit, int]]:
    """Yield what was used between two looks, scaled."""
    for unit, total in now.totals.items():
        yield unit, max(0, total - before.totals.get(unit, total)) * _SCALE
    if before.memory_bytes is not None and now.memory_bytes is not None:
        bytes_held = (before.memory_bytes + now.memory_bytes) / 2
        yield Unit.MEMORY_MIB_S, round(bytes_held * seconds * _SCALE / _MIB)
