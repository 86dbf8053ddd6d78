"""Which calls are turned away while the machine itself is short of something."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from governor.fairness.claim import Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """How much of the last ten seconds some task stood still, in hundredths of a percent.

    It is the `some avg10` of the kernel's pressure stall information; None is unknown.
    """

    cpu: int | None = None
    memory: int | None = None
    io: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shed:
    """Why a call is turned away: the resource that is short, and by how much."""

    resource: str
    measured: int
    threshold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """From which pressure on calls of a priority are turned away; None is never."""

    of: Mapping[Priority, Pressure] = field(default_factory=dict)

    def sheds(self, pressure: Pressure, priority: Priority) -> Shed | None:
        """Return why a call of `priority` is turned away now, None if it is not."""
        bounds = self.of.get(priority)
        if bounds is None:
            return None
        for resource, measured, threshold in (
            ("memory", pressure.memory, bounds.memory),
            ("cpu", pressure.cpu, bounds.cpu),
            ("io", pressure.io, bounds.io),
        ):
            if measured is not None and threshold is not None and measured >= threshold:
                return Shed(resource=resource, measured=measured, threshold=threshold)
        return None
