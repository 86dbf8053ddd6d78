"""A session's turns and outcome as JSON."""

from typing import Annotated

from pydantic import Field

from governor.ids import TaskClass
from governor.turn_policy import TURNS_MAX, TurnMode
from memory_store.turn_rows import TurnsView
from runtime.admin.shapes.fields import Label, Out, Shape


class ExtensionIn(Shape):
    """Turns to give to a session, whatever its mode and its progress."""

    turns: Annotated[int, Field(strict=True, ge=1, le=TURNS_MAX)]
    reason: Label = "granted by an administrator"


class OutcomeIn(Shape):
    """How a session went."""

    success: Annotated[bool, Field(strict=True)]


class ExtensionOut(Out):
    """Turns that a session was given, by whom and why."""

    number: int
    turns: int
    reason: str
    granted_by: str
    granted_at_ms: int


class OutcomeOut(Out):
    """How a session went, and who said so."""

    success: bool
    reported_at_ms: int
    reported_by: str


class TurnsOut(Out):
    """How a session stands with its turns; a `limit` of null does not limit."""

    mode: TurnMode
    task_class: TaskClass | None
    limit: int | None
    used: int
    remaining: int | None
    was_cut: Annotated[bool, Field(description="it was denied a turn")]
    extensions: list[ExtensionOut]
    outcome: OutcomeOut | None


def turns_out(view: TurnsView) -> TurnsOut:
    """Return a session's turns as they are shown."""
    outcome = None
    if view.is_solved is not None:
        assert view.outcome_at_ms is not None, "an outcome has a time"
        assert view.outcome_by is not None, "an outcome is somebody's"
        outcome = OutcomeOut(
            success=view.is_solved,
            reported_at_ms=view.outcome_at_ms,
            reported_by=view.outcome_by,
        )
    return TurnsOut(
        mode=view.mode,
        task_class=view.task_class,
        limit=view.limit,
        used=view.used,
        remaining=None if view.limit is None else max(0, view.limit - view.used),
        was_cut=view.was_cut,
        extensions=[
            ExtensionOut(
                number=extension.number,
                turns=extension.turns,
                reason=extension.reason,
                granted_by=extension.granted_by,
                granted_at_ms=extension.granted_at_ms,
            )
            for extension in view.extensions
        ],
        outcome=outcome,
    )
