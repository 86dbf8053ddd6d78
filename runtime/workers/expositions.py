"""Metrics of several processes as one exposition: each line says whose it is."""

import re
from collections.abc import Iterable

_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (.+)$")
_HELP = re.compile(r"^# (?:HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) ")


def merged(parts: Iterable[tuple[str, str]]) -> str:
    """Return the expositions of processes, each with its name, as one.

    Lines of one family stand together, as the format demands, whichever process they are of.
    """
    heads: dict[str, dict[str, None]] = {}
    samples: dict[str, list[str]] = {}
    for process, text in parts:
        family = ""
        for line in text.splitlines():
            described = _HELP.match(line)
            if described is not None:
                family = described[1]
                heads.setdefault(family, {})[line] = None
                continue
            found = _LINE.match(line)
            if found is None:
                continue
            name, labels, value = found.groups()
            inside = f'process="{process}"' + (f",{labels}" if labels else "")
            samples.setdefault(family, []).append(f"{name}{{{inside}}} {value}")
    lines = [
        line
        for family, described_by in heads.items()
        for line in (*described_by, *samples.get(family, ()))
    ]
    return "".join(f"{line}\n" for line in lines)
