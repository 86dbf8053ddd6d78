"""Metrics of several processes as one exposition: each line says whose it is."""

import re
from collections.abc import Iterable

_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (.+)$")
_HELP = re.compile(r"^# (?:HELP|TYPE|UNIT) ([a-zA-Z_:][a-zA-Z0-9_:]*) ")


_EXEMPLAR = " # {"
_END = "# EOF"


def merged(parts: Iterable[tuple[str, str]]) -> str:
    """Return the expositions of processes, each with its name, as one.

    Those in the OpenMetrics format have a line that ends them, and so has the whole then.
    Lines of one family stand together, as the format demands, whichever process they are of.
    """
    heads: dict[str, dict[str, None]] = {}
    samples: dict[str, list[str]] = {}
    is_ended = False
    for process, text in parts:
        family = ""
        for line in text.splitlines():
            described = _HELP.match(line)
            if described is not None:
                family = described[1]
                heads.setdefault(family, {})[line] = None
                continue
            is_ended = is_ended or line == _END
            sample, mark, exemplar = line.partition(_EXEMPLAR)
            found = _LINE.match(sample)
            if found is None or line.startswith("#"):
                continue
            name, labels, value = found.groups()
            inside = f'process="{process}"' + (f",{labels}" if labels else "")
            whole = f"{name}{{{inside}}} {value}{mark}{exemplar}"
            samples.setdefault(family, []).append(whole)
    lines = [
        line
        for family, described_by in heads.items()
        for line in (*described_by, *samples.get(family, ()))
    ]
    return "".join(f"{line}\n" for line in [*lines, *([_END] if is_ended else ())])
