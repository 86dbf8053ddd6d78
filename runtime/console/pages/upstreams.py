"""Upstreams: how they are, what they offer beside what was approved, the approval."""

from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from runtime.console.door import choices_of, fields_of, inside_of, say_next
from runtime.console.inside import Answer, part
from runtime.console.paths import PREFIX
from runtime.console.rendering import page

_PATH = f"{PREFIX}/upstreams"
_LOOKED_AT_FIRST = ("changed", "renamed", "new", "removed", "approved")


async def upstreams(request: Request) -> Response:
    """Return how each upstream is."""
    found = await inside_of(request).get("/upstreams")
    return page(request, "upstreams.html", upstreams=found["items"])


async def upstream(request: Request) -> Response:
    """Return how one upstream is, and what it offers."""
    return await _shown(request, problem=None)


async def approve(request: Request) -> Response:
    """Approve what an upstream offers as it was shown, or some of it."""
    name, fields = request.path_params["name"], fields_of(request)
    chosen = choices_of(request, "tools")
    body: dict[str, Any] = {} if "whole" in fields else {"tools": chosen}
    answer = await inside_of(request).ask(
        "POST", f"/upstreams/{part(name)}/approve", body=body, if_match=fields.get("version")
    )
    if not answer.is_ok:
        return await _shown(request, problem=_explained(answer, has_chosen=bool(chosen)))
    what = "What" if "whole" in fields else f"{len(chosen)} of what"
    await say_next(request, f"{what} {name} offers was approved.")
    return RedirectResponse(f"{_PATH}/{part(name)}", status_code=HTTPStatus.SEE_OTHER)


async def _shown(request: Request, *, problem: dict[str, Any] | None) -> Response:
    name, inside = request.path_params["name"], inside_of(request)
    health = await inside.get(f"/upstreams/{part(name)}")
    manifest = await inside.ask("GET", f"/upstreams/{part(name)}/manifest")
    tools = manifest.body["tools"] if manifest.is_ok else []
    return page(
        request,
        "upstream.html",
        status=HTTPStatus.OK if problem is None else problem["status"],
        upstream=health,
        manifest=manifest.body if manifest.is_ok else None,
        etag=manifest.etag,
        tools=sorted(tools, key=lambda tool: _LOOKED_AT_FIRST.index(tool["standing"])),
        problem=problem,
    )


def _explained(answer: Answer, *, has_chosen: bool) -> dict[str, Any]:
    """Return a problem in words that fit the form."""
    problem: dict[str, Any] = dict(answer.body)
    if answer.status == HTTPStatus.PRECONDITION_FAILED:
        problem["detail"] = (
            "What is offered changed since this page was loaded, so nothing was approved. "
            "This is how it is now: look at it again."
        )
    elif not has_chosen:
        problem["detail"] = "Nothing was chosen: tick what you approve."
    return problem


ROUTES = [
    Route(_PATH, upstreams, methods=["GET"]),
    Route(_PATH + "/{name}", upstream, methods=["GET"]),
    Route(_PATH + "/{name}/approve", approve, methods=["POST"]),
]
