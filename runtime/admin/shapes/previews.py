"""Previews of budgets as JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from governor.amounts import Unit
from governor.budget import Budget, Mode
from governor.ids import BudgetId, CallId
from governor.preview import BudgetReplay, Tally, never_forgets
from runtime.admin.shapes.budgets import BudgetChange, BudgetNew
from runtime.admin.shapes.fields import Out, Shape
from runtime.long_preview import Progress
from runtime.previewing import Preview

LINES = "application/x-ndjson"
DAYS_MAX = 90
_SHOWN_MAX = 50

_A_PART = (
    "There were more calls than one preview looks at: this is a part. Have every call looked at, "
    "or ask for fewer days, or for one agent or session."
)
_NO_CALLS = (
    "None of the calls that were looked at is one that this budget is for: that nothing would have "
    "been denied says nothing about it."
)
_NO_CARVES = (
    "What sub-sessions were given is not replayed as the hold that it was: their calls are charged "
    "one by one to the session above them."
)
_NEVER_ANEW = (
    "This budget never starts anew, and what was used before the first record counts for nothing "
    "here: it may deny earlier than this says."
)
_ONLY_OBSERVES = "It only observes: it would have noted these denials, and denied nothing."
_ALWAYS = (
    "Each call is replayed as it came, against this budget alone: what an agent would have done "
    "after a denial, nobody knows."
)


class PreviewIn(Shape):
    """A budget to make, or one that is there (`id`) with a change; a change may be left out."""

    new: BudgetNew | None = None
    id: BudgetId | None = None
    change: BudgetChange | None = None
    days: Annotated[
        int, Field(strict=True, ge=1, le=DAYS_MAX, description="how far to look back")
    ] = 7

    @model_validator(mode="after")
    def _says_one(self) -> "PreviewIn":
        if (self.new is None) == (self.id is None):
            raise PydanticCustomError(
                "preview",
                "send either new (a budget to make) or id (one that is there), not both",
            )
        if self.new is not None and self.change is not None:
            raise PydanticCustomError("preview", "change: it goes with id, not with new")
        return self


class TallyOut(Out):
    """How many calls there were of a subject, of a tool or model, and how many denied."""

    name: str
    calls: int
    denied: int


class DayOut(Out):
    """How many calls there were in one day of UTC, and how many denied."""

    day_start_ms: int
    calls: int
    denied: int


class PeakOut(Out):
    """How much of one unit was charged and held at once at the most, and by whom."""

    unit: Unit
    limit: int
    used: int
    subject: str


class WouldDenyOut(Out):
    """A call that would have been denied; `used` is what was charged and held before it."""

    call: CallId
    name: str
    subject: str
    at_ms: int
    unit: Unit
    limit: int
    used: int
    requested: int


class ReplayOut(Out):
    """What one budget would have denied of the calls that it governs.

    `denied_cost_microusd` is what the denied calls cost then. The lists are bounded: of subjects,
    tools and models those with most denials, of denials the first ones.
    """

    calls: int
    denied: int
    denied_cost_microusd: int
    first_denied_at_ms: int | None
    peaks: list[PeakOut]
    by_day: list[DayOut]
    by_subject: list[TallyOut]
    by_name: list[TallyOut]
    examples: list[WouldDenyOut]


class UnknownOut(Out):
    """What the preview cannot know.

    `denied_then` calls were denied when they came, and used nothing: what they would have used,
    had they run, is on no record. `without_estimate` held nothing of the budget's units, so that
    they are never denied, and count only when they end. Of the `unmeasured` nobody could measure
    a unit of the budget: they count as held, while the budget itself would deny them unless
    their rule says `best_effort`.
    """

    denied_then: int
    without_estimate: int
    unmeasured: int
    records_since_ms: int | None
    notes: list[str]


class PreviewOut(Out):
    """What a budget would have denied; `before` is the same of the budget as it stands.

    Calls that ended from `from_ms` to `until_ms` were replayed. It is not `complete` where there
    were more than one preview looks at: what is told then is what was found in that time.
    """

    from_ms: int
    until_ms: int
    complete: bool
    counts_since_ms: int
    mode: Mode
    after: ReplayOut
    before: ReplayOut | None
    newly_denied: int
    no_longer_denied: int
    unknown: UnknownOut


def line_of(one: Progress | Preview, budget: Budget) -> bytes:
    """Return a line of a preview that says how far it is."""
    if isinstance(one, Progress):
        return _line({"progress": {"calls": one.calls, "permille": one.done_permille}})
    return _line({"preview": preview_out(one, budget).model_dump(mode="json")})


def problem_line(document: Mapping[str, object]) -> bytes:
    """Return the last line of a preview that came to nothing."""
    return _line({"problem": document})


def _line(told: Mapping[str, object]) -> bytes:
    return json.dumps(told).encode() + b"\n"


def preview_out(preview: Preview, budget: Budget) -> PreviewOut:
    """Return a preview as it is shown."""
    return PreviewOut(
        from_ms=preview.from_ms,
        until_ms=preview.until_ms,
        complete=preview.is_complete,
        counts_since_ms=preview.counts_since_ms,
        mode=budget.mode,
        after=_replay_out(preview.after),
        before=None if preview.before is None else _replay_out(preview.before),
        newly_denied=preview.newly_denied,
        no_longer_denied=preview.no_longer_denied,
        unknown=UnknownOut(
            denied_then=preview.after.denied_then,
            without_estimate=preview.after.without_estimate,
            unmeasured=preview.after.unmeasured,
            records_since_ms=preview.records_since_ms,
            notes=_notes(preview, budget),
        ),
    )


def _replay_out(replay: BudgetReplay) -> ReplayOut:
    return ReplayOut(
        calls=replay.calls,
        denied=replay.denied,
        denied_cost_microusd=replay.denied_cost_microusd,
        first_denied_at_ms=replay.first_denied_at_ms,
        peaks=[
            PeakOut(unit=one.unit, limit=one.limit, used=one.used, subject=one.subject)
            for one in replay.peaks
        ],
        by_day=[
            DayOut(day_start_ms=int(one.name), calls=one.calls, denied=one.denied)
            for one in replay.by_day
        ],
        by_subject=_tallies(replay.by_subject),
        by_name=_tallies(replay.by_name),
        examples=[
            WouldDenyOut(
                call=one.call_id,
                name=one.name,
                subject=one.subject,
                at_ms=one.at_ms,
                unit=one.unit,
                limit=one.limit,
                used=one.used,
                requested=one.requested,
            )
            for one in replay.examples
        ],
    )


def _tallies(found: Sequence[Tally]) -> list[TallyOut]:
    return [
        TallyOut(name=one.name, calls=one.calls, denied=one.denied) for one in found[:_SHOWN_MAX]
    ]


def _notes(preview: Preview, budget: Budget) -> list[str]:
    """Return in sentences what is not known, or is taken for granted."""
    replay = preview.after
    denied_then = (
        f"{_calls(replay.denied_then)} denied at the time and used nothing. What would have been "
        "used, nobody knows: that is left out."
    )
    without_estimate = (
        f"{_calls(replay.without_estimate)} let pass without holding any of these units, so this "
        "budget could not have denied them; what they used counts from their end on."
    )
    unmeasured = (
        f"{_calls(replay.unmeasured)} not measured in one of these units, and count as they were "
        "held; the budget itself denies such calls, unless their rule says "
        'isolation = "best_effort".'
    )
    late = (
        f"{_calls(preview.late)} so long that others were replayed before, which began later: "
        "near a limit the one may have been denied for the other."
    )
    unsure = [
        (replay.calls == 0, _NO_CALLS),
        (replay.denied_then > 0, denied_then),
        (replay.without_estimate > 0, without_estimate),
        (replay.unmeasured > 0, unmeasured),
        (replay.in_sub_sessions > 0, _NO_CARVES),
        (not preview.is_complete, _A_PART),
        (preview.late > 0, late),
        (never_forgets(budget) and bool(preview.records_since_ms), _NEVER_ANEW),
        (budget.mode is Mode.OBSERVE, _ONLY_OBSERVES),
    ]
    return [*(said for is_so, said in unsure if is_so), _ALWAYS]


def _calls(number: int) -> str:
    return "1 call was" if number == 1 else f"{number} calls were"
