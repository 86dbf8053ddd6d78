"""How closely an agent is guided in a class of tasks, by the record of that class (after ATLAS).

A class that goes well is left alone: every word of guidance costs context and may mislead. One that
mostly fails is walked through step by step, and where even that is not enough a person decides.
"""

from dataclasses import dataclass
from enum import StrEnum

from governor.experience.certainty import bounds_of


class Guidance(StrEnum):
    """How an agent is guided, from the least to the most."""

    NONE = "none"
    HINTS = "hints"
    PLAYBOOK = "playbook"
    STEP_CHECKS = "step_checks"
    ASK = "ask"


_ORDER = tuple(Guidance)
_TOLD = {
    Guidance.NONE: "",
    Guidance.HINTS: "Past cases are hints; use your own judgement.",
    Guidance.PLAYBOOK: "Read the playbook before you begin, and follow what applies.",
    Guidance.STEP_CHECKS: (
        "Follow the playbook, and after each step check that it did what you meant before you go "
        "on."
    ),
    Guidance.ASK: (
        "Tasks like this one mostly fail. Make a plan, and ask a person before you change anything."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidanceTerms:
    """From where on a class is left to itself, and from where on it is guided more.

    Shares of success: the lower bound decides on less guidance, the upper bound on more, so that
    neither follows from a few runs. `runs_min` is how many must have ended for either.
    """

    runs_min: float = 5.0
    none_from: float = 0.8
    hints_from: float = 0.6
    checks_below: float = 0.5
    ask_below: float = 0.2


USUAL_GUIDANCE = GuidanceTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """How many tasks of a class ended with an outcome, and how many of them well."""

    solved: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Guided:
    """The guidance for a session, what it is told, and why.

    It is not by a record where too few tasks have ended to say anything.
    """

    guidance: Guidance
    told: str
    why: str
    is_by_record: bool = True

    @property
    def shows_playbook(self) -> bool:
        """Tell whether the playbook is put into the context."""
        return _ORDER.index(self.guidance) >= _ORDER.index(Guidance.PLAYBOOK)

    @property
    def shows_cases(self) -> bool:
        """Tell whether past cases are put into the context."""
        return self.guidance is not Guidance.NONE


def guided_by(
    record: TaskRecord, *, terms: GuidanceTerms = USUAL_GUIDANCE, is_risky: bool = False
) -> Guided:
    """Return the guidance for the next task of a class; a risky one is guided one step more."""
    found, why = _by_record(record, terms)
    if is_risky and found is not Guidance.ASK:
        found = _ORDER[_ORDER.index(found) + 1]
        why = f"{why}, and what it does is hard to undo"
    return Guided(
        guidance=found,
        told=_TOLD[found],
        why=why,
        is_by_record=record.ended >= terms.runs_min,
    )


def _by_record(record: TaskRecord, terms: GuidanceTerms) -> tuple[Guidance, str]:
    if record.ended < terms.runs_min:
        return Guidance.PLAYBOOK, f"ended tasks of this class: {record.ended:.0f}, too few to tell"
    bounds = bounds_of(record.solved, record.ended)
    why = (
        f"{record.solved:.0f} of {record.ended:.0f} tasks of this class went well: "
        f"between {bounds.low:.0%} and {bounds.high:.0%}"
    )
    # From the most guidance to the least, so that of two that apply the more careful stands.
    table = (
        (bounds.high < terms.ask_below, Guidance.ASK),
        (bounds.high < terms.checks_below, Guidance.STEP_CHECKS),
        (bounds.low >= terms.none_from, Guidance.NONE),
        (bounds.low >= terms.hints_from, Guidance.HINTS),
    )
    found = next((level for applies, level in table if applies), Guidance.PLAYBOOK)
    return found, why
