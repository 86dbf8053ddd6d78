"""The parts of an object file that say what a program does."""

import struct
from collections.abc import Mapping

_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_EXECUTED = 4
_PROGRAM_BITS = 1
_KEPT = (".maps", "license", ".rodata", ".data", ".bss")


def sections_of(content: bytes) -> Mapping[str, bytes]:
    """Return the code, maps and data by the names of their sections.

    What is left out, type information above all, differs with the headers of the machine.
    """
    fields = _HEADER.unpack_from(content)
    offset, size, count, names_index = fields[5], fields[10], fields[11], fields[12]
    headers = [_SECTION.unpack_from(content, offset + size * i) for i in range(count)]
    names = headers[names_index]
    found = {}
    for name_at, kind, flags, _, at, length, *_ in headers:
        start = names[4] + name_at
        name = content[start : content.index(b"\0", start)].decode()
        is_code = kind == _PROGRAM_BITS and flags & _EXECUTED
        if is_code or name in _KEPT:
            found[name] = content[at : at + length]
    return found
