"""Manifests of upstreams as JSON: what was approved, what is offered, what to look at."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from governor.flow.labels import Label
from governor.ids import UpstreamName
from governor.manifest import Pin, Standing
from runtime.admin.parts import AdminParts
from runtime.admin.shapes.fields import Out, Shape
from tool_gateway.guards.pins import Review

_TOOLS_MAX = 4_096


class ChangeOut(Out):
    """A part of a definition that differs, as JSON text; null where it was or is not."""

    path: Annotated[str, Field(description="a JSON pointer into the tool's definition")]
    before: str | None
    after: str | None


class ToolOut(Out):
    """A tool under review."""

    name: str
    standing: Standing
    was: Annotated[str | None, Field(description="the name that a renamed tool had")]
    quarantined: bool
    changes: list[ChangeOut]
    advice: Annotated[
        list[str], Field(description="what in the description a person should look at")
    ]
    labels: Annotated[
        dict[Label, str], Field(description="what flow rules take the tool for, and why")
    ]


class ManifestOut(Out):
    """What an upstream offers beside what was approved of it."""

    name: str
    pin: Pin
    version: str
    offered_digest: str
    approved_at_ms: int | None
    approved_by: str | None
    quarantined: list[str]
    tools: list[ToolOut]


class Approve(Shape):
    """Which tools are approved as they are offered now; without `tools`, the whole manifest."""

    tools: Annotated[list[str], Field(min_length=1, max_length=_TOOLS_MAX)] | None = None


def quarantined_of(parts: AdminParts, health: Mapping[str, object]) -> int:
    """Return how many tools of an upstream wait for an approval."""
    review = parts.pins.review(UpstreamName(str(health["name"])))
    return 0 if review is None else len(review.quarantined)


def manifest_out(review: Review, parts: AdminParts) -> ManifestOut:
    """Return a review as it is shown."""
    approved, quarantined = review.approved, review.quarantined
    return ManifestOut(
        name=review.upstream,
        pin=review.pin,
        version=review.version,
        offered_digest=review.offered_digest,
        approved_at_ms=None if approved is None else approved.approved_at_ms,
        approved_by=None if approved is None else approved.approved_by,
        quarantined=list(quarantined),
        tools=[
            ToolOut(
                name=one.tool.name,
                standing=one.tool.standing,
                was=one.tool.was,
                quarantined=one.tool.name in quarantined,
                changes=[
                    ChangeOut(path=change.path, before=change.before, after=change.after)
                    for change in one.tool.changes
                ],
                advice=list(one.advice),
                labels={} if one.entry is None else dict(parts.labels(one.entry).why),
            )
            for one in review.tools
        ],
    )
