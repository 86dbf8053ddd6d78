"""Where operators' probes are kept: one file for each, in the state directory."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ebpf.errors import ProbeError
from governor.amounts import Unit
from governor.usage import OF_PROBES

PROBES_MAX = 8  # each has a compiler beside it as long as it runs: some 130 MB
SOURCE_BYTES_MAX = 64 * 1024
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One program of an operator's; without a session it counts in every domain.

    `headers` is a tree of the running kernel's headers, where that is not at its usual place.
    What one with a `unit` counts is charged to budgets on that.
    """

    name: str
    source: str
    session: str | None = None
    headers: str | None = None
    unit: Unit | None = None


def checked(probe: Probe) -> Probe:
    """Return a probe that can be kept.

    Raises:
        ProbeError: its name, its source or its unit cannot.
    """
    if not _NAME.fullmatch(probe.name):
        raise ProbeError(
            f"{probe.name!r} cannot name a probe: use up to 32 small letters, digits and '_'"
        )
    if probe.name in OF_PROBES:
        raise ProbeError(f"{probe.name} is the name of a unit; give the probe another one")
    if probe.unit is not None:
        _check_unit(probe, probe.unit)
    if len(probe.source.encode()) > SOURCE_BYTES_MAX:
        raise ProbeError(f"{probe.name}: its source is longer than {SOURCE_BYTES_MAX} bytes")
    return probe


def _check_unit(probe: Probe, unit: Unit) -> None:
    if unit not in OF_PROBES:
        known = ", ".join(OF_PROBES)
        raise ProbeError(f"{probe.name}: {unit} is no unit of probes; use one of {known}")
    if probe.session is not None:
        raise ProbeError(
            f"{probe.name}: a budget holds for every session, so what counts for {unit} cannot "
            f"count for {probe.session} alone"
        )


def _check_apart(probes: Sequence[Probe]) -> None:
    """See that no unit is counted by two of them.

    Raises:
        ProbeError: one is.
    """
    counted_by: dict[Unit, str] = {}
    for probe in probes:
        if probe.unit is None:
            continue
        other = counted_by.setdefault(probe.unit, probe.name)
        if other != probe.name:
            raise ProbeError(
                f"{probe.unit} is counted by {other} and cannot be by {probe.name} as well; "
                "remove one of them first"
            )


def _probe_of(text: str) -> Probe:
    told = json.loads(text)
    if told.get("unit") is not None:
        told["unit"] = Unit(told["unit"])
    return Probe(**told)


class Shelf:
    """The probes of one state directory; a sidecar follows what is added and removed."""

    def __init__(self, folder: Path) -> None:
        """Take the directory, which need not exist."""
        self._folder = folder

    def add(self, probe: Probe) -> None:
        """Keep a probe, in place of the one of its name.

        Raises:
            ProbeError: there are too many, its unit is taken, or it cannot be written.
        """
        self.check_room(probe)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            place = self._place(probe.name)
            coming = place.with_suffix(".new")
            coming.unlink(missing_ok=True)
            # Seen whole or not at all by the sidecar that follows.
            fd = os.open(coming, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                json.dump(asdict(probe), file)
            coming.replace(place)
        except OSError as error:
            raise ProbeError(f"{probe.name} cannot be kept: {error}") from error

    def check_room(self, probe: Probe) -> None:
        """See that a probe can be added, before it is compiled.

        Raises:
            ProbeError: it cannot be kept, there are too many, or its unit is taken.
        """
        checked(probe)
        others = [other for other in self.probes() if other.name != probe.name]
        if len(others) >= PROBES_MAX:
            raise ProbeError(f"there are {PROBES_MAX} probes; remove one first")
        _check_apart([*others, probe])

    def probes(self) -> tuple[Probe, ...]:
        """Return them all, by name.

        Raises:
            ProbeError: one cannot be read, or two were added at once for the same unit.
        """
        found = []
        for place in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                found.append(checked(_probe_of(place.read_text(encoding="utf-8"))))
            except FileNotFoundError:
                continue  # removed since it was listed
            except (OSError, ValueError, TypeError, AttributeError) as error:
                raise ProbeError(f"{place} is no probe: {error}; remove the file") from error
        _check_apart(found)
        return tuple(found)

    def remove(self, name: str) -> bool:
        """Forget a probe; tell whether there was one."""
        if not _NAME.fullmatch(name):
            return False
        try:
            self._place(name).unlink()
        except FileNotFoundError:
            return False
        return True

    def _place(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"
