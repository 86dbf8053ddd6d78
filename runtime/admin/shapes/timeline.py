"""A session's timeline as JSON."""

import json
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from governor.ids import ApprovalId, CallId, SessionId, TurnId
from governor.target import CallKind
from governor.unified_cost import UnifiedPrices
from memory_store.calls import CallView
from memory_store.router_log import LoggedDecision
from memory_store.timeline import Moment, Running, Timeline
from runtime.admin.shapes.approvals import ApprovalOut, approval_out
from runtime.admin.shapes.calls import CallOut, call_out
from runtime.admin.shapes.fields import Out
from runtime.admin.shapes.sessions import SessionWithBillOut
from runtime.router.written import WrittenError, options_of

# How the rule of a model call's record is written: the tier, and the reasons for all that was
# chosen for it, one behind the other.
_TIER = "tier "
_BETWEEN = "; "
_EFFORT = "effort: "
_MODE = "mode: "


class ExpectedOut(Out):
    """What the router expected of a tier, and how probable it made its choice."""

    tier: str
    quality: float
    cost_microusd: float
    propensity: float


class ModelChoiceOut(Out):
    """Which tier a model call went to and why; `effort` and `mode` say what was asked of it.

    `policy` to `score` are of the router's own log, null where no learned choice was made.
    `score` is what those who rated the answer amount to, from 0 to 1.
    """

    tier: str
    why: list[str]
    effort: str | None
    mode: str | None
    policy: str | None
    explored: bool | None
    propensity: float | None
    expected: list[ExpectedOut]
    score: float | None


class TimelineCallOut(Out):
    """A call that ended or was denied; `model` is there for calls of a model."""

    kind: Literal["call"] = "call"
    at_ms: int
    call: CallOut
    model: ModelChoiceOut | None


class TimelineApprovalOut(Out):
    """A question to a person, told of when it was asked, as it stands now."""

    kind: Literal["approval"] = "approval"
    at_ms: int
    approval: ApprovalOut


class TimelineChangeOut(Out):
    """Something that was done to the session: it was frozen, resumed, extended, rated, closed."""

    kind: Literal["change"] = "change"
    at_ms: int
    actor: str
    action: str
    before: dict[str, JsonValue] | None
    after: dict[str, JsonValue] | None


class TurnSumOut(Out):
    """One turn and what its calls came to so far; `number` counts from 1."""

    turn: TurnId
    number: int
    calls: int
    denied: int
    cost_microusd: int
    started_at_ms: int
    ended_at_ms: int


class RunningOut(Out):
    """A call that has not ended; `approval` is what it waits for, if it waits for a person."""

    id: CallId
    kind: CallKind
    name: str
    turn: TurnId | None
    started_at_ms: int
    approval: ApprovalId | None


TimelineItem = Annotated[
    TimelineCallOut | TimelineApprovalOut | TimelineChangeOut, Field(discriminator="kind")
]


class TimelineOut(Out):
    """What happened in a session, the first first; `next` goes on behind the last item.

    A call stands where it ended, so that the listing only ever grows at its end. `turns` are
    those that the items of this page belong to.
    """

    session: SessionWithBillOut
    parent: SessionId | None
    children: list[SessionId]
    running: list[RunningOut]
    turns: list[TurnSumOut]
    items: list[TimelineItem]
    next: str | None


def timeline_out(
    session: SessionWithBillOut,
    parent: SessionId | None,
    timeline: Timeline,
    *,
    prices: UnifiedPrices,
) -> TimelineOut:
    """Return a part of a timeline as it is shown."""
    return TimelineOut(
        session=session,
        parent=parent,
        children=list(timeline.children),
        running=list(map(running_out, timeline.running)),
        turns=[TurnSumOut.model_validate(one, from_attributes=True) for one in timeline.turns],
        items=[_item(one, prices) for one in timeline.moments.items],
        next=timeline.moments.next,
    )


def running_out(running: Running) -> RunningOut:
    """Return a call that has not ended as it is shown."""
    return RunningOut(
        id=running.call_id,
        kind=running.kind,
        name=running.name,
        turn=running.turn,
        started_at_ms=running.started_at_ms,
        approval=running.approval,
    )


def _item(moment: Moment, prices: UnifiedPrices) -> TimelineItem:
    if moment.call is not None:
        return TimelineCallOut(
            at_ms=moment.at_ms,
            call=call_out(moment.call, prices),
            model=_choice(moment.call, moment.decision),
        )
    if moment.approval is not None:
        return TimelineApprovalOut(at_ms=moment.at_ms, approval=approval_out(moment.approval))
    change = moment.change
    assert change is not None, "a moment is one of the three"
    return TimelineChangeOut(
        at_ms=moment.at_ms,
        actor=change.actor,
        action=change.action,
        before=_json(change.before),
        after=_json(change.after),
    )


def _json(state: object) -> dict[str, JsonValue] | None:
    if state is None:
        return None
    found: dict[str, JsonValue] = json.loads(json.dumps(state))
    return found


def _choice(view: CallView, logged: LoggedDecision | None) -> ModelChoiceOut | None:
    record = view.record
    if record.kind is not CallKind.MODEL:
        return None
    said = record.rule
    # One that nobody waited for to be admitted has no words.
    tier, _, why = said.removeprefix(_TIER).partition(": ") if said else ("", "", "")
    reasons = [word for word in why.split(_BETWEEN) if word]
    decision = None if logged is None else logged.decision
    verdict = None if logged is None else logged.verdict
    return ModelChoiceOut(
        tier=tier or ("" if decision is None else decision.tier),
        why=[word for word in reasons if not word.startswith((_EFFORT, _MODE))],
        effort=_after(_EFFORT, reasons),
        mode=_after(_MODE, reasons),
        policy=None if decision is None else decision.policy,
        explored=None if decision is None else decision.explored,
        propensity=None if decision is None else decision.propensity,
        expected=[] if decision is None else _expected(decision.options),
        score=None if verdict is None else verdict.score,
    )


def _after(beginning: str, reasons: list[str]) -> str | None:
    return next((one.removeprefix(beginning) for one in reasons if one.startswith(beginning)), None)


def _expected(options: str) -> list[ExpectedOut]:
    try:
        found = options_of(options)
    except WrittenError:
        return []  # as a version wrote it that knows more, or with a figure that is none
    return [
        ExpectedOut(
            tier=one.tier,
            quality=one.quality,
            cost_microusd=one.cost_microusd,
            propensity=one.propensity,
        )
        for one in found.values()
    ]
