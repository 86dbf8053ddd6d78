"""Directories in the bpf file system, where links outlive the process that made them."""

import os
from contextlib import suppress
from pathlib import Path

BPF_FILES = Path("/sys/fs/bpf")


def is_mounted(place: Path = BPF_FILES, *, mountinfo: Path = Path("/proc/self/mountinfo")) -> bool:
    """Tell whether a bpf file system is mounted there."""
    try:
        lines = mountinfo.read_text().splitlines()
    except OSError:
        return False
    kinds = [_kind(line) for line in lines if line.split()[4:5] == [str(place)]]
    return bool(kinds) and kinds[-1] == "bpf"  # the last mount hides those before


class Pins:
    """The directory of one process, `flyball-<instance>-<pid>`."""

    def __init__(self, *, instance: str, pid: int, place: Path = BPF_FILES) -> None:
        """Take the name; nothing is made yet."""
        self._place = place
        self._prefix = f"flyball-{instance}-"
        self.directory = place / f"{self._prefix}{pid}"

    def path(self, name: str) -> Path:
        """Return where to pin something, in a directory that exists.

        Raises:
            OSError: it cannot be made.
        """
        self.directory.mkdir(mode=0o700, exist_ok=True)
        return self.directory / name

    def clear(self) -> None:
        """Unpin whatever this process has pinned."""
        _remove(self.directory)

    def sweep(self) -> int:
        """Unpin what dead processes of this instance have left; return how many those were.

        To be called when nothing of theirs runs any more: a pinned program still holds it.
        """
        try:
            found = [path for path in self._place.iterdir() if path.name.startswith(self._prefix)]
        except OSError:
            return 0
        dead = [path for path in found if not _lives(path.name.removeprefix(self._prefix))]
        for path in dead:
            _remove(path)
        return len(dead)


def _kind(line: str) -> str:
    """Return the type of the file system that a line of mountinfo is about."""
    return line.partition(" - ")[2].split(" ", 1)[0]


def _lives(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True


def _remove(directory: Path) -> None:
    with suppress(OSError):
        for path in directory.iterdir():
            path.unlink()
    with suppress(OSError):
        directory.rmdir()
