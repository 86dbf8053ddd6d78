"""Model providers: whether they are asked, and how their keys are; never a key itself."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.console.door import inside_of
from runtime.console.paths import PREFIX
from runtime.console.rendering import page

_PATH = f"{PREFIX}/providers"


async def providers(request: Request) -> Response:
    """Return how each model provider is."""
    inside = inside_of(request)
    found = await inside.get("/providers")
    router = await inside.get("/router")
    tiers: dict[str, list[str]] = {}
    for tier in router["tiers"]:
        tiers.setdefault(tier["provider"], []).append(tier["tier"])
    return page(request, "providers.html", providers=found["items"], tiers=tiers)


ROUTES = [Route(_PATH, providers, methods=["GET"])]
