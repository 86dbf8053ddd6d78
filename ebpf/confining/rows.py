"""How far this host can hold a command to its confines, found by trying."""

import os
from pathlib import Path

from ebpf.confining.files import FilePrograms
from ebpf.confining.programs import DEVICES, NETWORK, Programs
from ebpf.errors import ProbeError
from governor.confines import FREE

_NO_GROUPS = "no v2 hierarchy is mounted that domains stand in"


def why_not_held(own_group: Path | None, *, names: tuple[str, ...]) -> str:
    """Return why the programs cannot hold a domain beneath this group; empty where they can."""
    if own_group is None:
        return _NO_GROUPS
    group = own_group / f"flyball-confining-{os.getpid()}"
    try:
        programs = Programs()
        group.mkdir()
    except (ProbeError, OSError) as error:
        return str(error)
    try:
        programs.hang(names, group)
    except ProbeError as error:
        return str(error)
    finally:
        group.rmdir()
    return ""


def why_no_file_programs(own_group: Path | None) -> str:
    """Return why no program can withhold files from a domain; empty where one can."""
    if own_group is None:
        return _NO_GROUPS
    group = own_group / f"flyball-files-{os.getpid()}"
    try:
        programs = FilePrograms()
        group.mkdir()
    except (ProbeError, OSError) as error:
        return str(error)
    try:
        programs.hang(group, FREE)
    except ProbeError as error:
        return str(error)
    finally:
        group.rmdir()
    return ""


def why_no_network(own_group: Path | None) -> str:
    """Return why the network of a domain cannot be confined; empty where it can."""
    return why_not_held(own_group, names=NETWORK)


def why_no_devices(own_group: Path | None) -> str:
    """Return why the devices of a domain cannot be confined; empty where they can."""
    return why_not_held(own_group, names=DEVICES)
