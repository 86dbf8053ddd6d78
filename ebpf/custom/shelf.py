"""Where operators' probes are kept: one file for each, in the state directory."""

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from ebpf.errors import ProbeError

PROBES_MAX = 8  # each has a compiler beside it as long as it runs: some 130 MB
SOURCE_BYTES_MAX = 64 * 1024
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One program of an operator's; without a session it counts in every domain.

    `headers` is a tree of the running kernel's headers, where that is not at its usual place.
    """

    name: str
    source: str
    session: str | None = None
    headers: str | None = None


def checked(probe: Probe) -> Probe:
    """Return a probe that can be kept.

    Raises:
        ProbeError: its name or its source cannot.
    """
    if not _NAME.fullmatch(probe.name):
        raise ProbeError(
            f"{probe.name!r} cannot name a probe: use up to 32 small letters, digits and '_'"
        )
    if len(probe.source.encode()) > SOURCE_BYTES_MAX:
        raise ProbeError(f"{probe.name}: its source is longer than {SOURCE_BYTES_MAX} bytes")
    return probe


class Shelf:
    """The probes of one state directory; a sidecar follows what is added and removed."""

    def __init__(self, folder: Path) -> None:
        """Take the directory, which need not exist."""
        self._folder = folder

    def add(self, probe: Probe) -> None:
        """Keep a probe, in place of the one of its name.

        Raises:
            ProbeError: there are too many, or it cannot be written.
        """
        checked(probe)
        others = [other for other in self.probes() if other.name != probe.name]
        if len(others) >= PROBES_MAX:
            raise ProbeError(f"there are {PROBES_MAX} probes; remove one first")
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

    def probes(self) -> tuple[Probe, ...]:
        """Return them all, by name.

        Raises:
            ProbeError: one cannot be read.
        """
        found = []
        for place in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                found.append(checked(Probe(**json.loads(place.read_text(encoding="utf-8")))))
            except FileNotFoundError:
                continue  # removed since it was listed
            except (OSError, ValueError, TypeError) as error:
                raise ProbeError(f"{place} is no probe: {error}; remove the file") from error
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
