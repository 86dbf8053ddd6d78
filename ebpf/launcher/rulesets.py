"""Landlock rulesets that are kept until the directories which they were built from change.

Building one reads directories and opens everything in them, which takes as long as all the
rest of a launch. What is withheld is the same for nearly every command, so a ruleset is built
once and serves for as long as a new one would be the same.
"""

import os
import select
import time

from ebpf.launcher import landlock

TYPE_CHECKING = False  # `typing` costs every start milliseconds
if TYPE_CHECKING:
    from ebpf.launcher.spec import CarveSpec

    # Of each directory: which it is, when it was changed, how many it holds; None where none is.
    Seen = tuple[int, int, int, int] | None

RULESETS_MAX = 8
# Two changes within one tick of the kernel's clock leave the same time behind.
_SETTLED_NS = 100_000_000


class Rulesets:
    """The rulesets of one process, a few at a time."""

    def __init__(self) -> None:
        """Start with none."""
        self._kept: dict[str, _Kept] = {}
        self._mounts = _Mounts()

    def of(self, carve: "CarveSpec") -> int:
        """Return the descriptor of a ruleset for a carve, as good as one built now.

        Raises:
            OSError: the kernel refused a rule, or would need too many.
        """
        if self._mounts.may_have_changed():
            while self._kept:
                self._drop(next(iter(self._kept)))
        key = repr(carve)
        # Seen before it is built: a change in between is then found by the next look.
        sight = _sight(_listed(carve))
        kept = self._kept.get(key)
        if kept is not None:
            if kept.sight == sight and kept.is_settled:
                return kept.ruleset
            self._drop(key)
        elif len(self._kept) == RULESETS_MAX:
            self._drop(next(iter(self._kept)))
        kept = self._kept[key] = _Kept(landlock.built(carve), sight)
        return kept.ruleset

    def _drop(self, key: str) -> None:
        os.close(self._kept.pop(key).ruleset)


class _Kept:
    """A ruleset, and what was seen before it was built."""

    def __init__(self, ruleset: int, sight: "list[Seen]") -> None:
        """Take the descriptor and the sight."""
        self.ruleset = ruleset
        self.sight = sight
        self.is_settled = _is_settled(sight)


class _Mounts:
    """Whether something was mounted or unmounted; it changes no directory's entries."""

    def __init__(self) -> None:
        """Begin to watch."""
        self._poll: select.poll | None = None
        try:
            mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        self._poll = select.poll()
        self._poll.register(mounts, select.POLLPRI)

    def may_have_changed(self) -> bool:
        """Tell whether it may have since the last look."""
        return self._poll is None or bool(self._poll.poll(0))


def _listed(carve: "CarveSpec") -> list[str]:
    """Return the directories that are listed to build a ruleset: all above what is withheld."""
    found = {"/"}
    for path in (*carve["hidden"], *carve["read_only"], *carve["no_exec"]):
        above = os.path.dirname(path)  # noqa: PTH120 - pathlib costs every start
        while above not in found:
            found.add(above)
            above = os.path.dirname(above)  # noqa: PTH120
    return sorted(found)


def _sight(directories: list[str]) -> "list[Seen]":
    found: list[Seen] = []
    for directory in directories:
        try:
            status = os.stat(directory)  # noqa: PTH116
        except OSError:
            found.append(None)  # it is not there, so nothing in it was granted
            continue
        # The kernel's own file systems keep no time of new entries, but a count of directories.
        found.append((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_nlink))
    return found


def _is_settled(sight: "list[Seen]") -> bool:
    """Tell whether the next change will be seen: the last was long enough ago."""
    before_ns = time.time_ns() - _SETTLED_NS  # noqa: TID251 - the clock that files are dated by
    return all(seen is None or seen[2] < before_ns for seen in sight)
