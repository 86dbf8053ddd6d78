"""The audit log: who changed what, and how it was before."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.console.changes import changes
from runtime.console.door import inside_of
from runtime.console.paths import PREFIX
from runtime.console.rendering import page

_PATH = f"{PREFIX}/audit"
# The first parts of what actions are called.
_KINDS = (
    "approval",
    "budget",
    "config",
    "memory",
    "playbook",
    "prices",
    "principal",
    "quota",
    "router",
    "session",
    "tenant",
    "token",
    "upstream",
)


async def audit(request: Request) -> Response:
    """Return changes, the latest first."""
    asked = request.query_params
    found = await inside_of(request).get(
        "/audit",
        {name: asked.get(name) or None for name in ("actor", "action", "target", "cursor")},
    )
    return page(
        request,
        "audit.html",
        entries=[
            {**entry, "changes": changes(entry["before"], entry["after"])}
            for entry in found["items"]
        ],
        next=found["next"],
        kinds=_KINDS,
    )


ROUTES = [Route(_PATH, audit, methods=["GET"])]
