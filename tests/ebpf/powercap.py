"""A powercap tree and /proc/stat as the kernel would show them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ebpf.energy import EnergyCounters

RANGE_UJ = 262_143_328_850


@dataclass(frozen=True, slots=True)
class FakePowercap:
    """Zones by directory name, and the machine's processor times in ticks."""

    root: Path

    @property
    def counters(self) -> EnergyCounters:
        return EnergyCounters(
            ticks_per_second=100, powercap=self.root / "powercap", proc_stat=self.root / "stat"
        )

    def zone(self, zone: str, name: str, energy_uj: int, range_uj: int = RANGE_UJ) -> Path:
        directory = self.root / "powercap" / zone
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "name").write_text(f"{name}\n")
        (directory / "energy_uj").write_text(f"{energy_uj}\n")
        (directory / "max_energy_range_uj").write_text(f"{range_uj}\n")
        return directory

    def busy(self, *, user: int, idle: int = 0, iowait: int = 0, guest: int = 0) -> None:
        line = f"cpu  {user} 0 0 {idle} {iowait} 0 0 0 {guest} 0"
        (self.root / "stat").write_text(f"{line}\ncpu0 1 2 3 4 5 6 7 8 9 10\n")

    def packages(self, drawn_uj: Mapping[str, int]) -> None:
        for zone, energy_uj in drawn_uj.items():
            self.zone(zone, f"package-{zone[-1]}", energy_uj)
