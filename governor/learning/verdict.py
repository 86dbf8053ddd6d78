"""What several reports of one call amount to: whose word counts, and how much.

Feedback is partial, late, and not all of it is true. Whoever is trusted overrides everybody who is
not. What an agent says of its own calls counts less than what tests or people say that it cannot
speak for, and the house's own weak signs, a tool that failed or a loop, count least.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """What a report goes by."""

    TESTS = "tests"
    USER = "user"
    JUDGE = "judge"
    TOOL = "tool"
    TASK = "task"


class Reporter(StrEnum):
    """Who reports, as far as whose word counts."""

    ADMINISTRATOR = "administrator"
    TRUSTED = "trusted"
    AGENT = "agent"
    RUN = "run"
    """The key of an agent that was started by `flyball run`: the model itself may hold it."""
    HOUSE = "house"


TRUSTED = frozenset({Reporter.ADMINISTRATOR, Reporter.TRUSTED})
_OF_SOURCE = {
    Source.TESTS: 1.0,
    Source.USER: 1.0,
    Source.JUDGE: 0.6,
    Source.TASK: 0.6,
    Source.TOOL: 0.2,
}
_OF_REPORTER = {
    Reporter.ADMINISTRATOR: 1.0,
    Reporter.TRUSTED: 1.0,
    Reporter.AGENT: 0.5,
    Reporter.RUN: 0.25,
    Reporter.HOUSE: 0.5,
}
# What the outcome of a whole session counts, over all of its calls together.
SESSION_WEIGHT_MAX = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What somebody says of a call: 0 is useless, 1 as good as can be."""

    score: float
    weight: float
    is_trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What all reports of a call amount to, and by how much of a call it is to be learned."""

    score: float
    weight: float
    is_trusted: bool


def weight_of(source: Source, reporter: Reporter, *, calls: int = 1) -> float:
    """Return what a report counts; one about several calls is shared between them."""
    alone = _OF_SOURCE[source] * _OF_REPORTER[reporter]
    return min(alone, SESSION_WEIGHT_MAX * alone / max(1, calls))


def verdict_on(reports: Sequence[Report]) -> Verdict | None:
    """Return what the reports amount to, None if there are none.

    Several weak reports of one call do not add up to a strong one: who says the same thing
    through every door is not believed more.
    """
    trusted = [report for report in reports if report.is_trusted]
    heard = [report for report in trusted or reports if report.weight > 0]
    total = sum(report.weight for report in heard)
    if total <= 0:
        return None
    return Verdict(
        score=sum(report.score * report.weight for report in heard) / total,
        weight=max(report.weight for report in heard),
        is_trusted=bool(trusted),
    )
