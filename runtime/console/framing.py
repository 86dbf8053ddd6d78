"""What the frame around each page shows: tenants, what waits for an answer, what was done."""

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.console.door import door_of, inside_of, visit_of
from runtime.console.inside import AnsweredProblemError
from runtime.console.rendering import is_for_part

_SHOWN_MAX = 200


class Framing:
    """Reads what the frame shows before a whole page is made."""

    def __init__(self, app: ASGIApp) -> None:
        """Take what makes pages."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with what its page's frame shows."""
        request = Request(scope)
        visit = visit_of(request)
        if visit is not None and not is_for_part(request):
            await _read(request)
            if request.method == "GET":
                scope["flyball.notice"] = await door_of(request).visits.take_notice(visit)
        await self._app(scope, receive, send)


async def _read(request: Request) -> None:
    inside = inside_of(request)
    try:
        tenants = await inside.get("/tenants", {"limit": _SHOWN_MAX})
        pending = await inside.get("/approvals", {"state": "pending", "limit": _SHOWN_MAX})
    except AnsweredProblemError:
        # The page itself says what is wrong; a frame without its figures stands around it.
        return
    request.scope["flyball.tenants"] = tenants["items"]
    request.scope["flyball.waiting"] = len(pending["items"])


def tenant_of(request: Request) -> str | None:
    """Return the one tenant whose things are shown, None for everybody's."""
    visit = visit_of(request)
    return None if visit is None else visit.tenant
