"""Upstreams one by one: how they are, their manifests with the diff, the approval."""

from fastapi import Response
from pydantic import JsonValue, TypeAdapter

from governor.ids import UpstreamName
from memory_store.errors import NotFoundError, VersionConflictError
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.parts import AdminParts
from runtime.admin.shapes.manifests import Approve, ManifestOut, manifest_out, quarantined_of
from runtime.admin.versions import IfMatch, changed, tag
from runtime.failures import Fault, ProblemError, invalid
from tool_gateway.guards.pins import Review

ROUTES = governed_routes("/upstreams", tag="upstreams")

_WHOLE = Approve()
_UPSTREAM: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


@ROUTES.get("/{name}", summary="Read an upstream", responses=problems(404))
async def read_upstream(parts: Parts, name: str) -> dict[str, JsonValue]:
    """Return how an upstream is: its health, its processes, how it ended last.

    `stderr` are the last lines that a server which is started wrote beside the protocol, without
    what looks like a secret; `schema_faults` the schemas of its tools that check nothing.
    """
    health = await parts.upstream(name)
    if health is None:
        raise NotFoundError(f"there is no upstream {name}")
    faults = [
        {"tool": fault.tool, "which": fault.which, "why": fault.why}
        for fault in parts.schema_faults()
        if fault.upstream == name
    ]
    quarantined = quarantined_of(parts, health)
    return _UPSTREAM.validate_python(
        {**health, "quarantined": quarantined, "schema_faults": faults}
    )


@ROUTES.get("/{name}/manifest", summary="Read a manifest", responses=problems(404))
async def read_manifest(parts: Parts, name: str, response: Response) -> ManifestOut:
    """Return what the upstream offers, and how it differs from what was approved."""
    review = await _review(parts, name)
    tag(response, review)
    return manifest_out(review, parts)


@ROUTES.post(
    "/{name}/approve",
    summary="Approve what an upstream offers",
    responses=WITH_BODY | problems(404, 412),
)
async def approve_manifest(
    *,
    parts: Parts,
    by: By,
    name: str,
    response: Response,
    asked: Approve = _WHOLE,
    if_match: IfMatch = None,
) -> ManifestOut:
    """Return the manifest after what it offers, or some of it, was approved and is exposed.

    Send the ETag that was read as If-Match, or what changed in between is approved unseen.
    """

    async def write(review: Review) -> Review:
        _check_offered(review, asked)
        kept = await parts.pins.approve(review, names=asked.tools, by=by.name)
        if kept is None:
            revision = 0 if review.approved is None else review.approved.revision
            raise VersionConflictError(expected=revision, actual=revision + 1)
        return await _review(parts, name)

    async def read() -> Review:
        return await _review(parts, name)

    review = await changed(read=read, write=write, if_match=if_match)
    tag(response, review)
    return manifest_out(review, parts)


async def _review(parts: AdminParts, name: str) -> Review:
    review = parts.pins.review(UpstreamName(name))
    if review is None:
        raise NotFoundError(f"there is no upstream {name}")
    return review


def _check_offered(review: Review, asked: Approve) -> None:
    """Refuse names that are not offered."""
    offered = {one.tool.name for one in review.tools if one.definition is not None}
    faults = [
        Fault(field=f"tools.{number}", detail=f"{review.upstream} does not offer {name:.80}")
        for number, name in enumerate(asked.tools or ())
        if name not in offered
    ]
    if faults:
        raise ProblemError(invalid(*faults[:20]))
