"""What is stored of the turns of a session, and of those of its class before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select

from governor.ids import SessionId, TaskClass, TenantId, TurnId
from governor.target import CallKind
from governor.turn_policy import TurnMode
from governor.turn_progress import ANSWERS_MAX, CallPrint
from memory_store.tables import calls, sessions, turns
from memory_store.turn_tables import session_turns, turn_extensions

# What a limit is learned from: the latest sessions, because tasks and models change.
HISTORY_MAX = 1_000
# A session's turns are remembered one by one up to this many, which no limit exceeds.
TURNS_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Turns that a session was given on top of its first allowance."""

    number: int
    turns: int
    reason: str
    granted_by: str
    granted_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsView:
    """How a session stands with its turns; `base_turns` None does not limit.

    `task_class` is None for a session that turn control has not met.
    """

    task_class: TaskClass | None
    mode: TurnMode
    base_turns: int | None
    used: int
    was_cut: bool
    extensions: tuple[Extension, ...]
    is_solved: bool | None
    outcome_at_ms: int | None
    outcome_by: str | None

    @property
    def extended(self) -> int:
        """Return how many turns were given in all extensions."""
        return sum(extension.turns for extension in self.extensions)

    @property
    def limit(self) -> int | None:
        """Return how many turns the session may take as things stand."""
        return None if self.base_turns is None else self.base_turns + self.extended


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPast:
    """What a process that meets a session again must know of it.

    `prints` are its tool calls in the order in which they ended; those from `fresh_from` on came
    after the last extension. `model_turn` is the turn of its last request for a model.
    """

    view: TurnsView
    turns: tuple[TurnId, ...]
    prints: tuple[CallPrint, ...]
    fresh_from: int
    cost_microusd: int
    model_turn: TurnId | None


def _used(connection: Connection, session_id: SessionId) -> int:
    query = select(func.count()).select_from(turns).where(turns.c.session_id == session_id)
    return connection.execute(query).scalar_one()


def view_of(connection: Connection, session_id: SessionId) -> TurnsView:
    """Return how a session stands; one that turn control has not met was never limited."""
    row = connection.execute(
        select(session_turns).where(session_turns.c.session_id == session_id)
    ).one_or_none()
    granted = connection.execute(
        select(turn_extensions)
        .where(turn_extensions.c.session_id == session_id)
        .order_by(turn_extensions.c.number)
    ).all()
    return TurnsView(
        task_class=None if row is None else TaskClass(row.task_class),
        mode=TurnMode.UNLIMITED if row is None else TurnMode(row.mode),
        base_turns=None if row is None else row.base_turns,
        used=_used(connection, session_id),
        was_cut=row is not None and row.was_cut,
        extensions=tuple(_extension(found) for found in granted),
        is_solved=None if row is None else row.is_solved,
        outcome_at_ms=None if row is None else row.outcome_at_ms,
        outcome_by=None if row is None else row.outcome_by,
    )


def _extension(row: Any) -> Extension:
    return Extension(
        number=row.number,
        turns=row.turns,
        reason=row.reason,
        granted_by=row.granted_by,
        granted_at_ms=row.granted_at_ms,
    )


def past_of(connection: Connection, session_id: SessionId) -> SessionPast:
    """Return what is known of a session."""
    view = view_of(connection, session_id)
    named = connection.scalars(
        select(turns.c.turn).where(turns.c.session_id == session_id).limit(TURNS_REMEMBERED)
    ).all()
    of_session = calls.c.session == session_id
    cost = connection.execute(
        select(func.coalesce(func.sum(calls.c.cost_microusd), 0)).where(of_session)
    ).scalar_one()
    rows = connection.execute(
        select(
            calls.c.name, calls.c.arguments_hash, calls.c.result_hash, calls.c.status,
            calls.c.ended_at_ms,
        )
        .where(of_session, calls.c.arguments_hash.is_not(None))
        .order_by(calls.c.ended_at_ms.desc(), calls.c.call_id.desc())
        .limit(ANSWERS_MAX)
    ).all()[::-1]  # fmt: skip
    model_turn = connection.scalar(
        select(calls.c.turn)
        .where(of_session, calls.c.kind == CallKind.MODEL.value, calls.c.denial.is_(None))
        .order_by(calls.c.ended_at_ms.desc(), calls.c.call_id.desc())
        .limit(1)
    )
    since_ms = view.extensions[-1].granted_at_ms if view.extensions else 0
    return SessionPast(
        view=view,
        turns=tuple(TurnId(turn) for turn in named),
        prints=_prints(rows),
        fresh_from=sum(row.ended_at_ms < since_ms for row in rows),
        cost_microusd=int(cost),
        model_turn=None if model_turn is None else TurnId(model_turn),
    )


def _prints(rows: Sequence[Any]) -> tuple[CallPrint, ...]:
    return tuple(
        CallPrint(
            tool=row.name,
            arguments_hash=row.arguments_hash,
            result_hash=row.result_hash,
            is_success=row.status == "ok",
        )
        for row in rows
    )


def history_of(tenant: TenantId, task_class: TaskClass) -> Select[Any]:
    """Return the query for the latest sessions of a class that are over, as they were."""
    count = (
        select(func.count())
        .select_from(turns)
        .where(turns.c.session_id == session_turns.c.session_id)
        .scalar_subquery()
    )
    cost = (
        select(func.coalesce(func.sum(calls.c.cost_microusd), 0))
        .where(calls.c.session == session_turns.c.session_id)
        .scalar_subquery()
    )
    is_over = sessions.c.closed_at_ms.is_not(None) | session_turns.c.is_solved.is_not(None)
    latest = (
        select(
            count.label("turns"),
            cost.label("cost_microusd"),
            session_turns.c.is_solved,
            session_turns.c.was_cut,
        )
        .join(sessions, sessions.c.session_id == session_turns.c.session_id)
        .where(
            session_turns.c.tenant == tenant,
            session_turns.c.task_class == task_class,
            is_over,
        )
        .order_by(session_turns.c.begun_at_ms.desc())
        .limit(HISTORY_MAX)
        .subquery()
    )
    # Turns that retention has removed are not known any more: such a session teaches nothing.
    return select(latest).where(latest.c.turns > 0)
