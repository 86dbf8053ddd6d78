"""The sessions, and what happened in one of them."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from runtime.console.door import inside_of
from runtime.console.framing import tenant_of
from runtime.console.inside import part
from runtime.console.pages.budget_form import number_of
from runtime.console.paths import PREFIX
from runtime.console.rendering import page

_PATH = f"{PREFIX}/sessions"
_STATES = {"open": "true", "closed": "false"}
_DEEDS = ("freeze", "resume", "kill")
# What of an archived result one page shows.
_ARCHIVED_BYTES = 64 * 1024


async def sessions(request: Request) -> Response:
    """Return sessions, the one opened last first."""
    asked = request.query_params
    found = await inside_of(request).get(
        "/sessions",
        {
            "tenant": tenant_of(request),
            "agent": asked.get("agent") or None,
            "open": _STATES.get(asked.get("state", "")),
            "cursor": asked.get("cursor") or None,
        },
    )
    return page(
        request, "sessions.html", sessions=found["items"], next=found["next"], states=_STATES
    )


async def session(request: Request) -> Response:
    """Return one session as a timeline."""
    return await _shown(request, problem=None)


async def running(request: Request) -> Response:
    """Return the part of a session's page that renews itself: what runs now."""
    session_id = request.path_params["session_id"]
    found = await inside_of(request).get(f"/sessions/{part(session_id)}/running")
    return page(
        request,
        "session_running.html",
        running=found["items"],
        renews=True,
        here=_of(session_id),
    )


async def do(request: Request) -> Response:
    """Freeze, resume or end a session, and show it again."""
    session_id, deed = request.path_params["session_id"], request.path_params["deed"]
    if deed not in _DEEDS:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    answer = await inside_of(request).ask("POST", f"/sessions/{part(session_id)}/{deed}")
    if answer.is_ok:
        return RedirectResponse(_of(session_id), status_code=HTTPStatus.SEE_OTHER)
    return await _shown(request, problem=answer.problem, status=answer.status)


async def curve(request: Request) -> Response:
    """Return the chart of one call of a session, to be put into its timeline."""
    call_id = request.path_params["call_id"]
    found = await inside_of(request).get(f"/calls/{part(call_id)}/curve")
    return page(request, "curve.html", curve=found)


async def archive(request: Request) -> Response:
    """Return what was archived of a call."""
    call_id = request.path_params["call_id"]
    asked = request.query_params.get("offset", "")
    inside = inside_of(request)
    found = await inside.get(
        f"/calls/{part(call_id)}/archive",
        {"offset": number_of(asked, 0), "length": _ARCHIVED_BYTES},
    )
    call = await inside.get(f"/calls/{part(call_id)}")
    return page(request, "archive.html", archived=found, call=call)


def _of(session_id: str) -> str:
    return f"{_PATH}/{part(session_id)}"


async def _shown(
    request: Request, *, problem: Mapping[str, Any] | None, status: int = HTTPStatus.OK
) -> Response:
    session_id = request.path_params["session_id"]
    story = await inside_of(request).get(
        f"/sessions/{part(session_id)}/timeline",
        {"cursor": request.query_params.get("cursor") or None},
    )
    return page(
        request,
        "session.html",
        status=status,
        story=story,
        running=story["running"],
        renews=story["session"]["closed_at_ms"] is None,
        groups=_groups(story["items"], story["turns"]),
        here=_of(session_id),
        problem=problem,
    )


def _groups(
    items: Sequence[Mapping[str, Any]], turns: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the items in their order, neighbours of one turn together with what it came to.

    What was done to the session belongs to no turn, and stands where it happened.
    """
    by_turn = {turn["turn"]: turn for turn in turns}
    found: list[dict[str, Any]] = []
    for item in items:
        held = item.get("call") or item.get("approval")
        turn = None if held is None else held["turn"]
        is_same = found and (held is None or found[-1]["key"] == turn)
        if not is_same:
            found.append({"key": turn, "turn": by_turn.get(turn), "items": []})
        found[-1]["items"].append(item)
    for group in found:
        _place(group)
    return found


def _place(group: dict[str, Any]) -> None:
    """Say of each call of a group from where to where it ran, in thousandths of the group."""
    calls = [item["call"] for item in group["items"] if item["kind"] == "call"]
    first = min((call["started_at_ms"] for call in calls), default=0)
    span = max(1, max((call["ended_at_ms"] for call in calls), default=0) - first)
    group["places"] = {
        call["id"]: (
            (call["started_at_ms"] - first) * 1000 // span,
            max(6, (call["ended_at_ms"] - call["started_at_ms"]) * 1000 // span),
        )
        for call in calls
    }


ROUTES = [
    Route(_PATH, sessions, methods=["GET"]),
    Route(_PATH + "/{session_id}", session, methods=["GET"]),
    Route(_PATH + "/{session_id}/running", running, methods=["GET"]),
    Route(_PATH + "/{session_id}/{deed}", do, methods=["POST"]),
    Route(f"{PREFIX}/calls/{{call_id}}/curve", curve, methods=["GET"]),
    Route(f"{PREFIX}/calls/{{call_id}}/archive", archive, methods=["GET"]),
]
