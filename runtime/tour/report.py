"""What a step of the tour reports."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

REASON_CHARS_MAX = 120
_DENIAL_OPENING = "This host cannot enforce what the rule requires: "


class Ending(StrEnum):
    """How a step ended."""

    OK = "ok"
    NOT_ENFORCEABLE = "not enforceable here"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """One line of the tour: what was tried, how it ended, what was measured."""

    title: str
    ending: Ending
    measured: str
    capability: str | None = None

    def line(self, number: int) -> str:
        """Return the step as a line for people; `flyball doctor` has the long reasons."""
        if self.ending is Ending.NOT_ENFORCEABLE:
            return f"{number:>2}  {self.ending.value}: {self.title}  {_short(self.measured)}"
        return f"{number:>2}  {self.ending.value:<6}  {self.title:<34}  {self.measured}"


def _short(reason: str) -> str:
    """Return the beginning of a reason that says enough for one line."""
    first = reason.removeprefix(_DENIAL_OPENING).partition("; ")[0].partition(". ")[0]
    if len(first) <= REASON_CHARS_MAX:
        return first
    return first[: REASON_CHARS_MAX - 1] + "…"


def exit_code(reports: Iterable[StepReport], *, strict: bool) -> int:
    """Return 0 if no step failed; `strict` also counts what this host cannot enforce."""
    endings = {report.ending for report in reports}
    bad = Ending.FAILED in endings or (strict and Ending.NOT_ENFORCEABLE in endings)
    return 1 if bad else 0


def ok(title: str, measured: str) -> StepReport:
    """Return the report of a step that held."""
    return StepReport(title=title, ending=Ending.OK, measured=measured)


def failed(title: str, measured: str) -> StepReport:
    """Return the report of a step that did not hold."""
    return StepReport(title=title, ending=Ending.FAILED, measured=measured)


def not_enforceable(title: str, capability: str, measured: str) -> StepReport:
    """Return the report of a step that this host cannot enforce."""
    return StepReport(
        title=title, ending=Ending.NOT_ENFORCEABLE, measured=measured, capability=capability
    )
