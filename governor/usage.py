"""Measured consumption of one call."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from governor.amounts import Amounts, Unit
from governor.curve import Curve

# What a call takes of a machine: somebody has to watch it there while it runs.
OF_THE_MACHINE = (
    Unit.CPU_MS,
    Unit.MEMORY_MIB_S,
    Unit.IO_BYTES,
    Unit.EGRESS_BYTES,
    Unit.ENERGY_MJ,
)
# What operators' own probes count of local commands, where one is assigned to the unit.
OF_PROBES = (Unit.PROBE_1, Unit.PROBE_2, Unit.PROBE_3, Unit.PROBE_4)
# Measured only by way of something else: text by its length, energy by processor time,
# memory by samples (or by its peak, where a command was too short for two of them).
ESTIMATED = (
    Unit.MEMORY_MIB_S,
    Unit.ENERGY_MJ,
    Unit.CONTEXT_TOKENS,
    Unit.MEMORY_READ_TOKENS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a call consumed, as far as it could be measured.

    `unmeasured` names each unit that nobody could measure, with the reason: unknown is
    not zero, and settlement charges such a unit at what was held for it. `divided` are measured
    units of a server that ran other calls as well: the call's part by time. `curve` is how a
    local command went over its life.
    """

    measured: Amounts
    unmeasured: Mapping[Unit, str] = field(default_factory=dict)
    memory_peak_bytes: int | None = None
    divided: tuple[Unit, ...] = ()
    curve: Curve | None = None

    @property
    def estimated(self) -> tuple[Unit, ...]:
        """Return the measured units whose figures are estimates."""
        return tuple(
            unit for unit in self.measured.by_unit if unit in ESTIMATED or unit in self.divided
        )
