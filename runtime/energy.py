"""The energy that is charged to a local command, and by which way it was found."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ebpf.energy import EnergyCounters, EnergyReading, attributed_mj
from ebpf.errors import EnergyUnknownError
from governor.amounts import Unit
from governor.estimate import energy_mj

ATTRIBUTED = "its share, by CPU time, of what the processors' counters (powercap) measured"
ESTIMATED = "CPU time at energy.watts_per_core"
_NO_WATTS = "energy.watts_per_core is not set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """What is charged to one command; without a figure, `why` there is none."""

    millijoules: int | None
    by: str = ""
    why: str = ""

    @property
    def amounts(self) -> Mapping[Unit, int]:
        """Return the figure under its unit, if there is one."""
        return {} if self.millijoules is None else {Unit.ENERGY_MJ: self.millijoules}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergySource:
    """What a command's energy is known from: the counters, else the configured draw."""

    elapsed_ms: Callable[[], int]
    counters: EnergyCounters | None = None
    milliwatts_per_core: int | None = None

    @property
    def why_unmeasurable(self) -> str | None:
        """Return why no command's energy can be known; None where it can."""
        if self.milliwatts_per_core is not None:
            return None
        try:
            self._read()
        except EnergyUnknownError as error:
            return f"{error}, and {_NO_WATTS}"
        return None

    @property
    def why_no_estimate(self) -> str | None:
        """Return why no processor time stands for an energy; None where it does."""
        return _NO_WATTS if self.milliwatts_per_core is None else None

    def estimate(self, cpu_ms: int | None) -> Energy:
        """Return what so much processor time draws as configured, whenever that was."""
        if cpu_ms is None or self.milliwatts_per_core is None:
            return Energy(millijoules=None, why=_NO_WATTS)
        return Energy(millijoules=energy_mj(cpu_ms, self.milliwatts_per_core), by=ESTIMATED)

    def begin(self) -> EnergyReading | None:
        """Return the counters as a command begins; None where they do not speak."""
        try:
            return self._read()
        except EnergyUnknownError:
            return None

    def used(self, began: EnergyReading | None, *, cpu_ms: int | None) -> Energy:
        """Return what a command drew since it began, if its processor time is known."""
        if cpu_ms is None:
            return Energy(millijoules=None, why="its processor time is unknown")
        why = "the energy counters said nothing when it began"
        if began is not None:
            try:
                share = attributed_mj(began, self._read(), cpu_ms=cpu_ms)
                return Energy(millijoules=share, by=ATTRIBUTED)
            except EnergyUnknownError as error:
                why = str(error)
        if self.milliwatts_per_core is None:
            return Energy(millijoules=None, why=f"{why}, and {_NO_WATTS}")
        return Energy(millijoules=energy_mj(cpu_ms, self.milliwatts_per_core), by=ESTIMATED)

    def _read(self) -> EnergyReading:
        if self.counters is None:
            message = "this host has no energy counters (powercap)"
            raise EnergyUnknownError(message)
        return self.counters.read(now_ms=self.elapsed_ms())


# For who neither counts energy nor says what a core draws.
NO_ENERGY = EnergySource(elapsed_ms=lambda: 0)


def energy_source(milliwatts_per_core: int | None, elapsed_ms: Callable[[], int]) -> EnergySource:
    """Return what this host knows energy from, beside the configured draw of a core."""
    return EnergySource(
        elapsed_ms=elapsed_ms,
        counters=EnergyCounters(ticks_per_second=os.sysconf("SC_CLK_TCK")),
        milliwatts_per_core=milliwatts_per_core,
    )
