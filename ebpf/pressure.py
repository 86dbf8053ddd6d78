"""How short the machine is of processor, memory and disk: the kernel's own figures."""

from collections.abc import Callable
from pathlib import Path

from governor.fairness.shedding import Pressure

PRESSURE = Path("/proc/pressure")
# The kernel renews its averages every two seconds, so a reading stands for one.
READING_MS = 1_000
_RESOURCES = ("cpu", "memory", "io")


class PressureReader:
    """Reads the pressure stall information, at most once a second."""

    def __init__(self, *, elapsed_ms: Callable[[], int], folder: Path = PRESSURE) -> None:
        """Take the monotonic clock; nothing is read yet."""
        self._elapsed_ms = elapsed_ms
        self._folder = folder
        self._read_ms: int | None = None
        self._last: Pressure | None = None

    def __call__(self) -> Pressure | None:
        """Return the pressure of the last ten seconds; None where the kernel does not say."""
        now_ms = self._elapsed_ms()
        if self._read_ms is None or now_ms - self._read_ms >= READING_MS:
            self._read_ms = now_ms
            self._last = read_pressure(self._folder)
        return self._last


def read_pressure(folder: Path = PRESSURE) -> Pressure | None:
    """Return what the kernel says of each resource; None if it says nothing at all."""
    found = {resource: _some_avg10(folder / resource) for resource in _RESOURCES}
    if all(value is None for value in found.values()):
        return None
    return Pressure(cpu=found["cpu"], memory=found["memory"], io=found["io"])


def _some_avg10(path: Path) -> int | None:
    """Return `some avg10` in hundredths of a percent; None where the file is not as expected."""
    try:
        words = path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return None
    if words[:1] != ["some"] or not words[1:] or not words[1].startswith("avg10="):
        return None
    whole, _, part = words[1].removeprefix("avg10=").partition(".")
    digits = whole + part.ljust(2, "0")[:2]
    return int(digits) if digits.isascii() and digits.isdigit() else None
