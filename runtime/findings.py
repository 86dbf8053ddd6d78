"""One thing that `flyball doctor` looked at, how good it is, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Mark(StrEnum):
    """How good something is."""

    OK = "ok"
    WARNING = "warn"
    BAD = "BAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    what: str
    mark: Mark
    told: str

    @property
    def is_ok(self) -> bool:
        """Tell whether it works; a warning does."""
        return self.mark is not Mark.BAD


def ok(what: str, told: str) -> Finding:
    """Return that something works."""
    return Finding(what=what, mark=Mark.OK, told=told)


def warning(what: str, told: str) -> Finding:
    """Return that something works, and not as somebody may think."""
    return Finding(what=what, mark=Mark.WARNING, told=told)


def bad(what: str, told: str) -> Finding:
    """Return that something does not work."""
    return Finding(what=what, mark=Mark.BAD, told=told)
