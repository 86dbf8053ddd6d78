"""The router: its tiers, what was learned of them, what it decided, which model is in force."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from runtime.console.door import inside_of, say_next
from runtime.console.inside import Answer, part
from runtime.console.pages.scatter import calibration_plot, tier_plot
from runtime.console.paths import PREFIX
from runtime.console.rendering import is_for_part, page

_PATH = f"{PREFIX}/router"
_LATEST = 10
# What looks at more of the log takes seconds, in which agents wait for this process.
_ROWS = 3_000


async def router(request: Request) -> Response:
    """Return how the router stands."""
    return await _shown(request, problem=None)


async def decisions(request: Request) -> Response:
    """Return what was chosen, the last choice first."""
    asked = request.query_params
    found = await inside_of(request).get(
        "/router/decisions",
        {
            "rated": "true" if asked.get("rated") == "yes" else None,
            "cursor": asked.get("cursor") or None,
        },
    )
    return page(request, "router_decisions.html", decisions=found["items"], next=found["next"])


async def ways(request: Request) -> Response:
    """Return the part of the page that says what other ways to choose would have earned."""
    found = await inside_of(request).get("/router/evaluation", {"rows": _ROWS})
    return page(request, "router_ways.html", found=found, back=_PATH, is_part=is_for_part(request))


async def promote(request: Request) -> Response:
    """Put a model in force, and show the router again."""
    version = request.path_params["version"]
    answer = await inside_of(request).ask("POST", f"/router/models/{part(version)}/promote")
    return await _after(request, answer, f"The model {version} is in force.")


async def roll_back(request: Request) -> Response:
    """Put in force again what was before, and show the router again."""
    answer = await inside_of(request).ask("POST", "/router/rollback")
    before = answer.body.get("incumbent") if answer.is_ok else None
    now = "The tier rules choose again." if before is None else f"The model {before} is in force."
    return await _after(request, answer, now)


async def _after(request: Request, answer: Answer, told: str) -> Response:
    if not answer.is_ok:
        return await _shown(request, problem=answer.problem)
    await say_next(request, told)
    return RedirectResponse(_PATH, status_code=HTTPStatus.SEE_OTHER)


async def _shown(request: Request, *, problem: Mapping[str, Any] | None) -> Response:
    inside = inside_of(request)
    standing = await inside.get("/router")
    advice = await inside.get("/router/advice", {"rows": _ROWS})
    calibration = await inside.get("/router/calibration", {"rows": _ROWS})
    models = await inside.get("/router/models")
    latest = await inside.get("/router/decisions", {"limit": _LATEST})
    advised = {tier["tier"]: tier for tier in advice["tiers"]}
    return page(
        request,
        "router.html",
        status=HTTPStatus.OK if problem is None else problem["status"],
        router=standing,
        tiers=[{**tier, "advice": advised.get(tier["tier"])} for tier in standing["tiers"]],
        rated=sum(tier["rated"] for tier in standing["tiers"]),
        too_thin=advice["too_thin"],
        tier_plot=tier_plot(advice["tiers"]),
        calibration=calibration,
        calibration_plot=calibration_plot(calibration["bins"]),
        models=models["items"],
        latest=latest["items"],
        has_more=latest["next"] is not None,
        here=_PATH,
        problem=problem,
    )


ROUTES = [
    Route(_PATH, router, methods=["GET"]),
    Route(f"{_PATH}/decisions", decisions, methods=["GET"]),
    Route(f"{_PATH}/ways", ways, methods=["GET"]),
    Route(f"{_PATH}/rollback", roll_back, methods=["POST"]),
    Route(f"{_PATH}/models/{{version}}/promote", promote, methods=["POST"]),
]
