"""Operators' probes on every domain: counted per command, and a limit where a rule has one."""

import logging
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from ebpf.command import EndCause
from ebpf.custom.running import RunningProbe, start_probe
from ebpf.custom.shelf import Probe, Shelf
from ebpf.domains.place import directory_name
from ebpf.errors import CapabilityMissingError, EbpfError, ProbeError
from governor.amounts import Unit
from governor.limits import ExecutionLimits
from governor.usage import OF_PROBES

logger = logging.getLogger(__name__)

FOLLOW_SECONDS = 2.0
POLL_SECONDS = 0.05
# What one command is charged at the most: a count below nothing would be a huge one, and the sum
# of a session's must still be a number that the books hold.
COUNT_MAX = 2**50
_NOTHING = bytes(8)


class CustomProbes:
    """The probes of a state directory, as far as they run; an attacher."""

    def __init__(self, shelf: Shelf) -> None:
        """Take where probes are kept; none runs before `followed`."""
        self._shelf = shelf
        self._running: dict[str, RunningProbe] = {}
        self._refused: dict[str, tuple[Probe, str]] = {}

    @property
    def measures(self) -> frozenset[Unit]:
        """Return the units that probes are assigned to and that these count now."""
        units = (one.probe.unit for one in self._running.values() if one.is_alive)
        return frozenset(unit for unit in units if unit is not None)

    @property
    def running(self) -> tuple[str, ...]:
        """Return the names of the probes that count now."""
        return tuple(name for name, one in self._running.items() if one.is_alive)

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Run what is on the shelf, and what comes to be there, until the block ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow, name="probes")
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _follow(self) -> None:
        try:
            while True:
                await self.take_in()
                await anyio.sleep(FOLLOW_SECONDS)
        finally:
            with anyio.CancelScope(shield=True):
                for name in list(self._running):
                    await self._running.pop(name).stop()

    async def take_in(self) -> None:
        """Start and stop probes until those run that are on the shelf."""
        try:
            wanted = {probe.name: probe for probe in self._shelf.probes()}
        except ProbeError as error:
            logger.warning("The probes cannot be read: %s", error)
            return
        for name, one in list(self._running.items()):
            if wanted.get(name) != one.probe or not one.is_alive:
                del self._running[name]  # before it is stopped: who attaches must not find it
                await one.stop()
        for name, probe in wanted.items():
            known = self._refused.get(name)
            if name not in self._running and (known is None or known[0] != probe):
                await self._start(probe)

    async def _start(self, probe: Probe) -> None:
        try:
            self._running[probe.name] = await start_probe(probe)
        except EbpfError as error:
            # Once for each text: what did not compile will not next time.
            self._refused[probe.name] = (probe, str(error))
            logger.warning("A probe does not run: %s", error)

    def attach(self, name: str, group: Path, limits: ExecutionLimits) -> "Counting":
        """Return what counts for a domain from now on; nothing runs in it yet.

        Raises:
            CapabilityMissingError: a probe that the rule limits does not run.
            ProbeError: one cannot be attached.
        """
        wanted = self._by_name(limits.probe_limits)
        for missing in wanted.keys() - set(self.running):
            why = self._refused.get(missing)
            raise CapabilityMissingError(
                f"the probe {missing}, which the rule limits, does not run"
                + (f": {why[1]}" if why is not None else " (`flyball probe list`)")
            )
        probes = [
            one
            for one in self._running.values()
            if one.is_alive and _is_for(one.probe, session_group=group.parent)
        ]
        counting = Counting(probes, group, limits=wanted)
        try:
            for one in probes:
                one.hang(group)
        except ProbeError:
            counting.close()
            raise
        return counting

    def _by_name(self, limits: Sequence[tuple[str, int]]) -> dict[str, int]:
        """Return the limits by the probes' names, where a rule says a unit's name for one."""
        named = {
            one.probe.unit: name
            for name, one in self._running.items()
            if one.probe.unit is not None and one.is_alive
        }
        found: dict[str, int] = {}
        for said, most in limits:
            name = named.get(Unit(said), said) if said in OF_PROBES else said
            found[name] = min(most, found.get(name, most))
        return found


def _is_for(probe: Probe, *, session_group: Path) -> bool:
    return probe.session is None or directory_name(probe.session) == session_group.name


class Counting:
    """What the probes count in one domain; an attachment."""

    def __init__(
        self, probes: Sequence[RunningProbe], group: Path, *, limits: Mapping[str, int]
    ) -> None:
        """Begin at nothing.

        Raises:
            ProbeError: the kernel refused.
        """
        self._probes = tuple(probes)
        self._domain = group.stat().st_ino.to_bytes(8, sys.byteorder)
        self._limits = limits
        for one in self._probes:
            one.counts.put(self._domain, _NOTHING)

    def counted(self) -> dict[str, int | None]:
        """Return what each probe counted so far; None of one that has ended meanwhile."""
        found: dict[str, int | None] = {}
        for one in self._probes:
            value = one.counts.get(self._domain) if one.is_alive else None
            found[one.probe.name] = None if value is None else int.from_bytes(value, sys.byteorder)
        return found

    def measured(self) -> Mapping[Unit, int]:
        """Return what was counted for budgets; a probe that ended says nothing."""
        counted = self.counted()
        return {
            one.probe.unit: min(count, COUNT_MAX)
            for one in self._probes
            if one.probe.unit is not None and (count := counted[one.probe.name]) is not None
        }

    async def exceeded(self) -> EndCause:
        """Return PROBE once a probe has counted further than the rule lets it."""
        while self._limits:
            cause = self.ended_by()
            if cause is not None:
                return cause
            await anyio.sleep(POLL_SECONDS)
        await anyio.sleep_forever()
        raise AssertionError

    def ended_by(self) -> EndCause | None:
        """Return PROBE where a limit is exceeded, or can no longer be looked at."""
        counted = self.counted()
        for name, most in self._limits.items():
            count = counted.get(name)
            if count is None or count > most:
                return EndCause.PROBE
        return None

    async def drain(self, *, seconds_max: float) -> None:
        """Wait for nothing: what no process does any more is counted."""

    def notes(self) -> tuple[str, ...]:
        """Return what each probe counted."""
        return tuple(
            f"the probe {name} {'ended' if count is None else f'counted {count}'}"
            + (f" (at most {self._limits[name]})" if name in self._limits else "")
            for name, count in self.counted().items()
        )

    def close(self) -> None:
        """Count no longer for this domain, whose group is removed next."""
        for one in self._probes:
            if one.is_alive:
                one.counts.remove(self._domain)
