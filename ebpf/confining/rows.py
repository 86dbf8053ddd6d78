"""How far this host can hold a command to its confines, found by trying."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ebpf.confining.files import FilePrograms
from ebpf.confining.programs import DEVICES, NETWORK, Programs
from ebpf.errors import ProbeError
from governor.confines import FREE

_NO_GROUPS = "no v2 hierarchy is mounted that domains stand in"


def why_no_network(own_group: Path | None) -> str:
    """Return why the network of a domain cannot be confined; empty where it can."""
    return _why_not_held(own_group, names=NETWORK)


def why_no_devices(own_group: Path | None) -> str:
    """Return why the devices of a domain cannot be confined; empty where they can."""
    return _why_not_held(own_group, names=DEVICES)


def why_no_file_programs(own_group: Path | None) -> str:
    """Return why no program can withhold files from a domain; empty where one can."""

    def hang(group: Path) -> None:
        programs = FilePrograms()
        try:
            programs.hang(group, FREE)
        finally:
            programs.unload()

    return _why_not_hung(own_group, hang)


def _why_not_held(own_group: Path | None, *, names: tuple[str, ...]) -> str:
    """Return why the programs cannot hold a domain beneath this group; empty where they can."""

    def hang(group: Path) -> None:
        programs = Programs()
        try:
            programs.hang(names, group)
        finally:
            programs.unload()

    return _why_not_hung(own_group, hang)


def _why_not_hung(own_group: Path | None, hang: Callable[[Path], None]) -> str:
    if own_group is None:
        return _NO_GROUPS
    try:
        with _made(own_group / f"flyball-confining-{os.getpid()}") as group:
            hang(group)
    except (ProbeError, OSError) as error:
        return str(error)
    return ""


@contextmanager
def _made(group: Path) -> Iterator[Path]:
    """Yield a group that nothing is in, removed again afterwards."""
    group.mkdir()
    try:
        yield group
    finally:
        group.rmdir()
