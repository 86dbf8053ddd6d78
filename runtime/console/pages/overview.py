"""The overview: what is spent and held, what was denied, what waits."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.console.door import inside_of
from runtime.console.framing import tenant_of
from runtime.console.paths import PREFIX
from runtime.console.rendering import page


async def overview(request: Request) -> Response:
    """Return the overview of one tenant's things, or of everybody's."""
    balances = await inside_of(request).get("/balances", {"tenant": tenant_of(request)})
    return page(request, "overview.html", balances=balances["items"])


ROUTES = [Route(PREFIX, overview, methods=["GET"])]
