"""The calls that ended, and one of them whole."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from governor.call import CallStatus
from governor.denial import DenialReason
from runtime.console.door import inside_of
from runtime.console.framing import tenant_of
from runtime.console.inside import part
from runtime.console.paths import PREFIX
from runtime.console.rendering import page

_PATH = f"{PREFIX}/calls"


async def calls(request: Request) -> Response:
    """Return calls that ended, the last one first."""
    asked = request.query_params
    found = await inside_of(request).get(
        "/calls",
        {
            "tenant": tenant_of(request),
            "status": asked.get("status") or None,
            "denial": asked.get("denial") or None,
            "name": asked.get("name") or None,
            "session": asked.get("session") or None,
            "agent": asked.get("agent") or None,
            "cursor": asked.get("cursor") or None,
        },
    )
    return page(
        request,
        "calls.html",
        calls=found["items"],
        next=found["next"],
        statuses=[status.value for status in CallStatus],
        denials=[reason.value for reason in DenialReason],
    )


async def call(request: Request) -> Response:
    """Return one call that ended."""
    call_id = request.path_params["call_id"]
    inside = inside_of(request)
    found = await inside.get(f"/calls/{part(call_id)}")
    curve = await inside.get(f"/calls/{part(call_id)}/curve") if found["has_curve"] else None
    return page(request, "call.html", call=found, curve=curve)


ROUTES = [
    Route(_PATH, calls, methods=["GET"]),
    Route(_PATH + "/{call_id}", call, methods=["GET"]),
]
