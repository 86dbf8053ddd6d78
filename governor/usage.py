"""Measured consumption of one call."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from governor.amounts import Amounts, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a call consumed, as far as it could be measured.

    `unmeasured` names each unit that nobody could measure, with the reason: unknown is
    not zero, and settlement charges such a unit at what was held for it.
    """

    measured: Amounts
    unmeasured: Mapping[Unit, str] = field(default_factory=dict)
    memory_peak_bytes: int | None = None

    def charge_for(self, unit: Unit, *, held: int) -> int:
        """Return what to charge for `unit`, of which `held` was reserved."""
        if unit in self.measured:
            return self.measured.of(unit)
        return held
