"""What agents keep in their memory: the namespaces, what is found, what is there."""

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from runtime.console.door import door_of, inside_of
from runtime.console.framing import tenant_of
from runtime.console.inside import Inside
from runtime.console.paths import PREFIX
from runtime.console.rendering import page
from runtime.token_files import TENANT

PATH = f"{PREFIX}/memory"
_FOUND_MAX = 50
_NAMESPACES_SHOWN = 12
_NAMESPACES_OFFERED = 200
_QUERY_CHARS_MAX = 2_000


def whose(request: Request) -> str:
    """Return the one tenant whose memory is shown: the chosen one, else the first of all."""
    chosen = tenant_of(request)
    if chosen is not None:
        return chosen
    there = [one["id"] for one in request.scope.get("flyball.tenants", ())]
    return there[0] if there and TENANT not in there else TENANT


async def memory(request: Request) -> Response:
    """Return the namespaces of a tenant, and experiences: found by words, or the latest first."""
    asked, inside, tenant = request.query_params, inside_of(request), whose(request)
    filters = {
        name: asked.get(name) or None
        for name in ("namespace", "kind", "lane", "standing", "writer", "cursor")
    }
    words = asked.get("words", "").strip()[:_QUERY_CHARS_MAX]
    shown, problem = await _shown(inside, words, {**filters, "tenant": tenant})
    spaces = await _namespaces(inside, tenant)
    return page(
        request,
        "memory.html",
        **shown,
        problem=problem,
        words=words,
        of=tenant,
        spaces=spaces[:_NAMESPACES_SHOWN],
        spaces_in_all=len(spaces),
        offered=_offered(spaces, filters["namespace"]),
        has_memory=door_of(request).has_memory,
        **_choices(),
    )


def _choices() -> dict[str, Any]:
    return {
        "kinds": [kind.value for kind in ExperienceKind],
        "lanes": [lane.value for lane in TrustLane],
        "standings": [standing.value for standing in Standing],
    }


async def _shown(
    inside: Inside, words: str, filters: Mapping[str, str | None]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the experiences of the page with where they go on, and a problem if there is one."""
    nothing: dict[str, Any] = {"experiences": [], "next": None, "left_out": 0}
    if not words:
        answer = await inside.ask("GET", "/memory/experiences", query=filters)
        if not answer.is_ok:
            return nothing, answer.problem
        return {**nothing, "experiences": answer.body["items"], "next": answer.body["next"]}, None
    namespace = filters["namespace"]
    body: dict[str, Any] = {
        "tenant": filters["tenant"],
        "query": words,
        "namespaces": [] if namespace is None else [namespace],
        "kind": filters["kind"],
        "lane": filters["lane"],
        "limit": _FOUND_MAX,
    }
    answer = await inside.ask("POST", "/memory/search", body=body)
    if not answer.is_ok:
        return nothing, answer.problem
    found = [hit["experience"] for hit in answer.body["items"]]
    return {**nothing, "experiences": found, "left_out": answer.body["left_out"]}, None


async def _namespaces(inside: Inside, tenant: str) -> list[dict[str, Any]]:
    """Return the namespaces with how much each holds, the fullest first."""
    listed = await inside.get("/memory/namespaces", {"tenant": tenant})
    usage = await inside.get("/memory/usage", {"tenant": tenant})
    held: dict[str, list[Mapping[str, Any]]] = {}
    for one in usage["items"]:
        held.setdefault(one["namespace"], []).append(one)
    spaces = [_with_held(one, held.get(one["id"], ())) for one in listed["items"]]
    return sorted(spaces, key=lambda one: (-one["experiences"], one["name"]))


def _with_held(one: Mapping[str, Any], held: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    lanes = {lane["lane"]: lane for lane in held}
    return {
        **one,
        "experiences": sum(lane["experiences"] for lane in lanes.values()),
        "content_bytes": sum(lane["content_bytes"] for lane in lanes.values()),
        "lanes": {
            lane.value: lanes[lane.value]["experiences"] for lane in TrustLane if lane in lanes
        },
    }


def _offered(spaces: list[dict[str, Any]], chosen: str | None) -> list[tuple[str, str]]:
    """Return the id and name of the namespaces to choose among, the chosen one with them."""
    offered = [(one["id"], one["name"]) for one in spaces[:_NAMESPACES_OFFERED]]
    if chosen is not None and chosen not in {index for index, _ in offered}:
        offered.append((chosen, chosen))
    return offered


ROUTES = [Route(PATH, memory, methods=["GET"])]
