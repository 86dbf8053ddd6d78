"""How the memory as a whole is written in the admin interface."""

from typing import Annotated, Literal

from pydantic import Field

from memory_store.experiences.values import Looked
from runtime.admin.shapes.fields import Label, Out
from runtime.admin.shapes.memory import OfTenant
from runtime.memory.administration.carrying import CarriedIn


class ExportFilters(OfTenant):
    """What is carried out; without namespaces everything."""

    namespace: Annotated[tuple[Label, ...], Field(max_length=100)] = ()


class TakenFor(OfTenant):
    """Whose lines are taken, and up to which lane whoever sends them vouches for them."""

    as_lane: Literal["agent", "tool"] | None = None


class LineFaultOut(Out):
    """A line that was not taken, and why; lines are counted from 1."""

    line: int
    why: str


class TakenOut(Out):
    """What became of lines: new, here already, under another id, not taken.

    Of all of them `demoted` stand in a lane that is trusted less than their file says, and
    `quarantined` wait to be promoted.
    """

    new: int
    known: int
    renamed: int
    refused: int
    demoted: int
    quarantined: int
    faults: list[LineFaultOut]


class FlawOut(Out):
    """Something that does not add up."""

    what: str
    index: str | None


class LookedOut(Out):
    """What was looked through, and what did not add up; cut where there is more."""

    ok: bool
    entries: int
    experiences: int
    problems: list[FlawOut]
    is_cut: bool


def taken_out(carried: CarriedIn) -> TakenOut:
    """Return what became of lines."""
    taken = carried.taken
    return TakenOut(
        new=taken.new,
        known=taken.known,
        renamed=taken.renamed,
        refused=taken.refused,
        demoted=carried.demoted,
        quarantined=carried.quarantined,
        faults=[LineFaultOut(line=fault.line, why=fault.why) for fault in taken.faults],
    )


def looked_out(looked: Looked) -> LookedOut:
    """Return what was found."""
    return LookedOut(
        ok=not looked.problems,
        entries=looked.entries,
        experiences=looked.experiences,
        problems=[FlawOut(what=one.what, index=one.experience_id) for one in looked.problems],
        is_cut=looked.is_cut,
    )
