"""What a reload did, as JSON."""

from typing import Annotated

from pydantic import Field

from runtime.admin.shapes.fields import Out
from runtime.reload import Reloaded


class UpstreamsOut(Out):
    """What became of the upstreams, by name."""

    added: list[str]
    removed: list[str]
    replaced: Annotated[list[str], Field(description="connected anew, the old ones are drained")]
    retuned: Annotated[list[str], Field(description="changed without another connection")]


class ReloadOut(Out):
    """What was taken over of the file."""

    version: Annotated[str, Field(description="of the policy in force, as records name it")]
    version_before: str
    applied: Annotated[list[str], Field(description="tables that are in force as they stand")]
    needs_restart: Annotated[list[str], Field(description="tables that were changed in vain")]
    made_once: Annotated[
        list[str], Field(description="changed tables of which the next start makes what is new")
    ]
    told: Annotated[str, Field(description="all of it in words")]
    upstreams: UpstreamsOut


def reload_out(reloaded: Reloaded) -> ReloadOut:
    """Return a reload as it is shown."""
    return ReloadOut(
        version=reloaded.version,
        version_before=reloaded.version_before,
        applied=list(reloaded.applied),
        needs_restart=list(reloaded.needs_restart),
        made_once=list(reloaded.made_once),
        told=reloaded.told,
        upstreams=UpstreamsOut(**reloaded.upstreams),
    )
