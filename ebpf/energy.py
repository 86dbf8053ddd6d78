"""What the processors' own counters say that the machine has drawn, and whose part that was.

A counter speaks of a whole processor package. What one command drew is therefore attributed:
its part of the processor time that the machine spent in the same interval. Idle draw is shared
out with the rest, and memory, disks and fans are in no package.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ebpf.errors import EnergyUnknownError

POWERCAP = Path("/sys/class/powercap")
PROC_STAT = Path("/proc/stat")

# The same packages are seen through one or two interfaces; the first that is there is taken.
_CONTROL_TYPES = ("intel-rapl", "intel-rapl-mmio")
# Beneath a package are its parts, beside it is the platform (psys): both are counted with it.
_PACKAGE = "package-"
# A counter of some 260 kJ begins anew. More than this no package draws, so between two readings
# that are nearer than a range of it lies at most one new beginning.
_WATTS_MAX = 2_000
_MICROJOULES_PER_MILLIJOULE = 1_000
# user, nice, system, idle, iowait, irq, softirq, steal: what follows is part of the first two.
_TIMES = 8
_IDLE = (3, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """What one package had drawn, and where its counter begins anew."""

    energy_uj: int
    range_uj: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyReading:
    """All packages at one moment, and how long the machine's processors had been busy."""

    at_ms: int
    packages: Mapping[str, Counter]
    busy_ms: int


class EnergyCounters:
    """The counters of the processors' packages, where this host lets them be read."""

    def __init__(
        self, *, ticks_per_second: int, powercap: Path = POWERCAP, proc_stat: Path = PROC_STAT
    ) -> None:
        """Take the kernel's tick and where it tells; nothing is read yet."""
        self._ticks_per_second = ticks_per_second
        self._powercap = powercap
        self._proc_stat = proc_stat

    def read(self, *, now_ms: int) -> EnergyReading:
        """Return what the counters say now, by a monotonic clock's reading.

        Raises:
            EnergyUnknownError: there are none, or they may not be read.
        """
        zones = _packages(self._powercap)
        if not zones:
            message = "this host has no energy counters (powercap)"
            raise EnergyUnknownError(message)
        try:
            return EnergyReading(
                at_ms=now_ms,
                packages={
                    zone.name: Counter(
                        energy_uj=int((zone / "energy_uj").read_text()),
                        range_uj=int((zone / "max_energy_range_uj").read_text()),
                    )
                    for zone in zones
                },
                busy_ms=_busy_ticks(self._proc_stat.read_text()) * 1000 // self._ticks_per_second,
            )
        except (OSError, ValueError) as error:
            message = f"the energy counters cannot be read: {error}"
            raise EnergyUnknownError(message) from error


def drawn_mj(began: EnergyReading, ended: EnergyReading) -> int:
    """Return what all packages drew between two readings.

    Raises:
        EnergyUnknownError: a package came or went, or a counter may have begun anew twice.
    """
    if began.packages.keys() != ended.packages.keys():
        message = "a processor package came or went meanwhile"
        raise EnergyUnknownError(message)
    total_uj = 0
    for name, before in began.packages.items():
        after = ended.packages[name]
        if (ended.at_ms - began.at_ms) * _WATTS_MAX * 1_000 >= before.range_uj:
            message = f"the counter of {name} may have begun anew more than once meanwhile"
            raise EnergyUnknownError(message)
        drawn_uj = after.energy_uj - before.energy_uj
        total_uj += drawn_uj if drawn_uj >= 0 else drawn_uj + before.range_uj
    return total_uj // _MICROJOULES_PER_MILLIJOULE


def attributed_mj(began: EnergyReading, ended: EnergyReading, *, cpu_ms: int) -> int:
    """Return the part of what was drawn that so much processor time stands for, rounded up.

    Raises:
        EnergyUnknownError: what was drawn is not known.
    """
    # The machine's own count is in ticks and may lag behind: nobody has more than everything.
    busy_ms = max(ended.busy_ms - began.busy_ms, cpu_ms)
    return -(-drawn_mj(began, ended) * cpu_ms // busy_ms) if busy_ms else 0


def _packages(powercap: Path) -> list[Path]:
    """Return the directories of the processors' packages, each package once."""
    for control_type in _CONTROL_TYPES:
        found = sorted(
            zone
            for zone in powercap.glob(f"{control_type}:*")
            if _name_of(zone).startswith(_PACKAGE)
        )
        if found:
            return found
    return []


def _name_of(zone: Path) -> str:
    try:
        return (zone / "name").read_text().strip()
    except OSError:
        return ""


def _busy_ticks(stat: str) -> int:
    """Return how long all processors together were not idle, from /proc/stat."""
    label, *fields = stat.partition("\n")[0].split()
    if label != "cpu":
        message = "its first line is not of all processors"
        raise ValueError(message)
    times = [int(field) for field in fields[:_TIMES]]
    return sum(time for number, time in enumerate(times) if number not in _IDLE)
