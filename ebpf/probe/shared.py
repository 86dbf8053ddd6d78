"""Maps and programs that another process has loaded, found by the kernel's numbers for them."""

import os
from pathlib import Path

from ebpf.probe.libbpf import Libbpf
from ebpf.probe.maps import Map

_NUMBER_BYTES = 8
_ALLOW_MULTI = 2
# The kernel's numbers of the places on a group where packets pass.
_PLACES = {"ingress": 0, "egress": 1}


def shared_map(library: Libbpf, name: str, number: int) -> Map:
    """Return another's map of numbers by numbers.

    Raises:
        ProbeError: there is none, or this process may not have it.
    """
    fd = library.integer("bpf_map_get_fd_by_id", number)
    if fd < 0:
        raise library.failure(f"cannot share the counts of {name}", fd)
    return Map(library, name, fd=fd, key=_NUMBER_BYTES, value=_NUMBER_BYTES)


def hang_program(library: Libbpf, name: str, number: int, group: Path, *, kind: str) -> None:
    """Attach another's program to a directory of the v2 hierarchy for as long as that exists.

    Raises:
        ProbeError: the kernel refused.
    """
    program = library.integer("bpf_prog_get_fd_by_id", number)
    if program < 0:
        raise library.failure(f"cannot share {name}", program)
    try:
        directory = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        os.close(program)
        raise library.failure(f"cannot open {group}", error.errno) from error
    try:
        code = library.integer("bpf_prog_attach", program, directory, _PLACES[kind], _ALLOW_MULTI)
    finally:
        os.close(directory)
        os.close(program)
    if code < 0:
        raise library.failure(f"cannot attach {name}", code)
