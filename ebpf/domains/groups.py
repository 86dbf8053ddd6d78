"""Reading, writing, emptying, removing and finding control groups."""

import os
from collections.abc import Iterable
from pathlib import Path

import anyio

from ebpf.errors import DomainError

KILL_SECONDS_MAX = 10.0
REMOVE_SECONDS_MAX = 5.0
FREEZE_SECONDS_MAX = 5.0
_WAIT_SECONDS_FIRST = 0.001
_WAIT_SECONDS_MAX = 0.05
_SEARCH_DEPTH_MAX = 12


def write(path: Path, value: str) -> None:
    """Write one control file.

    Raises:
        DomainError: the kernel refused.
    """
    try:
        control = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(control, value.encode())
        finally:
            os.close(control)
    except OSError as error:
        message = f"{path.parent.name}: {path.name} cannot be set to {value}"
        raise DomainError(message) from error


def read(path: Path) -> str:
    """Return the text of one control file.

    Raises:
        DomainError: it cannot be read.
    """
    try:
        return path.read_text()
    except OSError as error:
        message = f"{path.parent.name}: {path.name} cannot be read"
        raise DomainError(message) from error


def read_number(path: Path) -> int:
    """Return the number that a control file holds.

    Raises:
        DomainError: it cannot be read, or holds none.
    """
    text = read(path).strip()
    if not text.isdigit():
        message = f"{path.parent.name}: {path.name} holds {text!r}"
        raise DomainError(message)
    return int(text)


def read_field(path: Path, name: str) -> int:
    """Return the number after `name` in a control file of `name value` lines."""
    for line in read(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    message = f"{path.parent.name}: {path.name} has no {name}"
    raise DomainError(message)


async def kill_group(directory: Path) -> None:
    """Kill all that is in a v2 group and beneath it.

    Raises:
        DomainError: it was still populated at the end of the wait.
    """
    wait = _WAIT_SECONDS_FIRST
    with anyio.move_on_after(KILL_SECONDS_MAX):
        while True:
            # Again each time: a launcher that was about to enter may have entered since.
            if _is_killed(directory):
                return
            await anyio.sleep(wait)
            wait = min(wait * 2, _WAIT_SECONDS_MAX)
    message = f"{directory.name}: processes survived cgroup.kill for {KILL_SECONDS_MAX} s"
    raise DomainError(message)


def _is_killed(directory: Path) -> bool:
    """Kill all that is in a v2 group; tell whether nothing is left.

    Raises:
        DomainError: the kernel refused.
    """
    try:
        write(directory / "cgroup.kill", "1")
        return not read_field(directory / "cgroup.events", "populated")
    except DomainError:
        if directory.exists():
            raise
        return True  # somebody else ended it, and only what is empty can be removed


async def freeze_group(directory: Path) -> None:
    """Let nothing run that is in a v2 group and beneath it, or enters it from now on.

    Raises:
        DomainError: the kernel refused, or some process did not stand still in time.
    """
    write(directory / "cgroup.freeze", "1")
    wait = _WAIT_SECONDS_FIRST
    with anyio.move_on_after(FREEZE_SECONDS_MAX):
        while not read_field(directory / "cgroup.events", "frozen"):
            await anyio.sleep(wait)
            wait = min(wait * 2, _WAIT_SECONDS_MAX)
        return
    thaw_group(directory)
    message = f"{directory.name}: not frozen after {FREEZE_SECONDS_MAX} s"
    raise DomainError(message)


def thaw_group(directory: Path) -> None:
    """Let a v2 group run again.

    Raises:
        DomainError: the kernel refused.
    """
    write(directory / "cgroup.freeze", "0")


async def remove_groups(directories: Iterable[Path]) -> None:
    """Remove control groups, waiting for the kernel to let go of their last members.

    Raises:
        DomainError: one could not be removed within the bound.
    """
    left = list(directories)
    wait = _WAIT_SECONDS_FIRST
    with anyio.move_on_after(REMOVE_SECONDS_MAX):
        while left:
            left = [path for path in left if not remove_group(path)]
            if left:
                await anyio.sleep(wait)
                wait = min(wait * 2, _WAIT_SECONDS_MAX)
    if left:
        message = f"{left[0].name}: still busy in {', '.join(str(path.parent) for path in left)}"
        raise DomainError(message)


def remove_group(path: Path) -> bool:
    """Remove one control group unless something is inside; tell whether it is gone."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # busy
    return True


def find_groups(root: Path, prefix: str) -> list[Path]:
    """Return every control group beneath a hierarchy's root whose name begins so."""
    found: list[Path] = []
    level = [root]
    for _ in range(_SEARCH_DEPTH_MAX):
        level = [child for parent in level for child in child_groups(parent)]
        found += [path for path in level if path.name.startswith(prefix)]
    return found


def is_there(directory: Path) -> bool:
    """Tell whether a control group still exists."""
    return directory.exists()


def child_groups(directory: Path) -> list[Path]:
    """Return the control groups directly beneath one; none where it is gone."""
    try:
        return [path for path in directory.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []  # removed while we looked, or not ours to read
