"""Sessions, and how to pause and end one."""

from http import HTTPStatus
from typing import Annotated

import anyio
from fastapi import Query

from governor.ids import SessionId
from governor.learning.verdict import Reporter
from memory_store.sessions import SessionView
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.shapes.fields import Page, Paging, page_of, whole_page
from runtime.admin.shapes.productivity import figures_out
from runtime.admin.shapes.sessions import (
    FrozenOut,
    KilledOut,
    ResumedOut,
    SessionFilters,
    SessionOut,
    SessionWithBillOut,
    session_out,
    session_with_bill_out,
)
from runtime.admin.shapes.timeline import RunningOut, TimelineOut, running_out, timeline_out
from runtime.admin.shapes.turns import ExtensionIn, OutcomeIn, TurnsOut, turns_out
from tool_gateway.telemetry import count_outcome

ROUTES = governed_routes("/sessions", tag="sessions")

_WHY_STOPPED = "an administrator ended the session"


@ROUTES.get("", summary="List sessions")
async def list_sessions(
    parts: Parts, filters: Annotated[SessionFilters, Query()]
) -> Page[SessionOut]:
    """Return sessions, the one opened last first."""
    found = await parts.store.sessions.page(
        tenant=filters.tenant,
        agent=filters.agent,
        is_open=filters.open,
        cursor=filters.cursor,
        limit=filters.limit,
    )
    return page_of(found, session_out)


@ROUTES.get("/{session_id}", summary="Read a session and its bill", responses=problems(404))
async def read_session(parts: Parts, session_id: SessionId) -> SessionWithBillOut:
    """Return the session with what it was charged so far, its turns and what they brought."""
    return await _shown(parts, await parts.store.sessions.get(session_id))


@ROUTES.get(
    "/{session_id}/timeline",
    summary="Read what happened in a session",
    responses=problems(404),
)
async def read_timeline(
    parts: Parts, session_id: SessionId, paging: Annotated[Paging, Query()]
) -> TimelineOut:
    """Return calls, questions to people and changes in the order of time, with the bill."""
    store = parts.store
    session = await store.sessions.get(session_id)
    found = await store.timelines.page(session_id, cursor=paging.cursor, limit=paging.limit)
    return timeline_out(
        await _shown(parts, session), session.parent, found, prices=parts.policy().unified
    )


@ROUTES.get(
    "/{session_id}/running",
    summary="List the calls of a session that have not ended",
    responses=problems(404),
)
async def list_running(parts: Parts, session_id: SessionId) -> Page[RunningOut]:
    """Return the calls that run or wait for a person, the first admitted first."""
    await parts.store.sessions.get(session_id)
    found = await parts.store.timelines.running(session_id)
    return whole_page(map(running_out, found))


@ROUTES.post(
    "/{session_id}/extensions",
    summary="Give a session more turns",
    status_code=HTTPStatus.CREATED,
    responses=problems(404) | WITH_BODY,
)
async def extend_session(
    parts: Parts, by: By, session_id: SessionId, asked: ExtensionIn
) -> TurnsOut:
    """Raise the session's limit; it is in force at the next turn that would be denied."""
    view = await parts.store.turns.extend(
        session_id,
        turns=asked.turns,
        reason=asked.reason,
        by=by,
        now_ms=parts.clock.now_ms(),
    )
    return turns_out(view)


@ROUTES.post(
    "/{session_id}/outcome", summary="Say how a session went", responses=problems(404) | WITH_BODY
)
async def report_outcome(parts: Parts, by: By, session_id: SessionId, asked: OutcomeIn) -> TurnsOut:
    """Keep whether the session did what it was for; the last word stands."""
    view = await parts.store.turns.set_outcome(
        session_id, is_solved=asked.success, by=by, now_ms=parts.clock.now_ms()
    )
    count_outcome(is_success=asked.success)
    await parts.feedback.session_ended(
        session_id, is_success=asked.success, reporter=Reporter.ADMINISTRATOR, by=by.name
    )
    return turns_out(view)


@ROUTES.post("/{session_id}/kill", summary="End a session", responses=problems(404))
async def kill_session(parts: Parts, by: By, session_id: SessionId) -> KilledOut:
    """Deny every further call of the session and all below, and stop those that run or wait to."""
    ended: tuple[SessionId, ...] = (session_id,)
    try:
        # Closed first: a call admitted in between would be missed by the stop.
        closed = await parts.store.sessions.close(session_id, by=by, now_ms=parts.clock.now_ms())
        ended = closed.affected
    finally:
        # Whatever the store says, what runs is stopped: that is what a kill is for.
        stopped = sum(parts.running.stop_session(one, why=_WHY_STOPPED) for one in ended)
    return KilledOut(session=session_out(closed.session), calls_stopped=stopped)


@ROUTES.post("/{session_id}/freeze", summary="Pause a session", responses=problems(404, 409))
async def freeze_session(parts: Parts, by: By, session_id: SessionId) -> FrozenOut:
    """Deny the session's calls until it is resumed, and let its local commands stand still.

    What an upstream does for it goes on. The time limits of frozen commands do not run.
    """
    with anyio.CancelScope(shield=True):
        # Stored first: a call admitted in between would be missed.
        paused = await parts.store.sessions.freeze(session_id, by=by, now_ms=parts.clock.now_ms())
        frozen = [await parts.freezer.freeze(one) for one in paused.affected]
    return FrozenOut(session=session_out(paused.session), commands_frozen=sum(frozen))


@ROUTES.post("/{session_id}/resume", summary="Resume a session", responses=problems(404, 409))
async def resume_session(parts: Parts, by: By, session_id: SessionId) -> ResumedOut:
    """Admit the session's calls again and let its commands go on where they were.

    It does not matter whether an administrator or the loop breaker had paused it.
    """
    with anyio.CancelScope(shield=True):
        paused = await parts.store.sessions.resume(session_id, by=by, now_ms=parts.clock.now_ms())
        thawed = [await parts.freezer.thaw(one) for one in paused.affected]
    was_paused = paused.before.frozen_at_ms is not None
    return ResumedOut(
        session=session_out(paused.session),
        # In one that was not paused nothing stood still.
        commands_resumed=sum(thawed) if was_paused else 0,
        was_paused=was_paused,
    )


async def _shown(parts: Parts, session: SessionView) -> SessionWithBillOut:
    store, policy, session_id = parts.store, parts.policy(), session.session_id
    return session_with_bill_out(
        session,
        await store.calls.bill(session_id),
        prices=policy.unified,
        turns=turns_out(await store.turns.view(session_id)),
        productivity=figures_out(
            await store.productivity.of_session(session_id),
            milliwatts_per_core=policy.milliwatts_per_core,
        ),
    )
