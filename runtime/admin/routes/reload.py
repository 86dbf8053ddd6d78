"""Taking the changed configuration over while calls run."""

from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.openapi import governed_routes
from runtime.admin.shapes.reload import ReloadOut, reload_out
from runtime.errors import ConfigError
from runtime.failures import Fault, ProblemError, invalid

ROUTES = governed_routes("/reload", tag="configuration")


@ROUTES.post("", summary="Read the configuration again")
async def reload_configuration(parts: Parts, by: By) -> ReloadOut:
    """Return what was taken over of the file; a file that is at fault changes nothing.

    Upstreams that were added are connected, those that were removed end when their calls have;
    rules are replaced together. What needs a restart is named and stays as it is.
    """
    try:
        return reload_out(await parts.reload(by))
    except ConfigError as error:
        faults = [Fault(field="config", detail=line) for line in str(error).splitlines()]
        raise ProblemError(invalid(*faults)) from error
