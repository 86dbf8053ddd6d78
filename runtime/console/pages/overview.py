"""The overview: what is spent and how fast, what was denied, what runs and what waits."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.console.door import inside_of
from runtime.console.framing import tenant_of
from runtime.console.paths import PREFIX
from runtime.console.rendering import page

LIVE = f"{PREFIX}/live"
_NEAR = 12
_UNUSED = 3
_RUNNING = 10
_FAILED = frozenset({"tool_error", "timed_out", "upstream_failed", "limit_hit", "expired"})


async def overview(request: Request) -> Response:
    """Return the overview of one tenant's things, or of everybody's."""
    return page(request, "overview.html", is_part=False, **await _figures(request))


async def live(request: Request) -> Response:
    """Return the part of the overview that renews itself."""
    return page(request, "overview_live.html", is_part=True, **await _figures(request))


async def _figures(request: Request) -> dict[str, Any]:
    found = await inside_of(request).get("/overview", {"tenant": tenant_of(request)})
    calls: dict[str, int] = found["calls"]
    return {
        "live": LIVE,
        "now": found,
        "near": _fullest(found["budgets"]),
        "running": found["running"][:_RUNNING],
        "calls_total": sum(calls.values()),
        "calls_failed": sum(count for status, count in calls.items() if status in _FAILED),
        "calls_denied": calls.get("denied", 0),
    }


def _fullest(budgets: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return the accounts to show: those that are used, or a few where none is."""
    used = [one for one in budgets if one["used"] or one["reserved"]]
    return used[:_NEAR] if used else budgets[:_UNUSED]


ROUTES = [
    Route(PREFIX, overview, methods=["GET"]),
    Route(LIVE, live, methods=["GET"]),
]
