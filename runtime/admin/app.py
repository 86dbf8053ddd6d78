"""The administrators' application, put together."""

from fastapi import FastAPI

from memory_store.experiences.values import CONTENT_BYTES_MAX
from runtime.admin.auth import AdministratorsOnly
from runtime.admin.openapi import DESCRIPTION, PREFIX, describe_problems
from runtime.admin.parts import AdminParts
from runtime.admin.problems import answer_with_problems
from runtime.admin.routes import (
    approvals,
    balances,
    budgets,
    calls,
    health,
    lately,
    memory,
    memory_lessons,
    memory_tiers,
    memory_upkeep,
    metrics,
    notices,
    overview,
    prices,
    principals,
    reload,
    router,
    sessions,
    tenants,
    tokens,
    upstreams,
)
from runtime.http_guard import BodyLimit
from runtime.memory.administration.carrying import LINE_BYTES_MAX
from runtime.router.desk import MODEL_BYTES_MAX
from runtime.version import VERSION

__all__ = ["PREFIX", "create_admin_app"]

# A router model is megabytes, and a third more in base64.
_LARGER = {
    f"{PREFIX}/router/models": 2 * MODEL_BYTES_MAX,
    f"{PREFIX}/memory/import": LINE_BYTES_MAX,
    f"{PREFIX}/memory/experiences": 2 * CONTENT_BYTES_MAX,
}
_PARTS = (
    health,
    tenants,
    budgets,
    principals,
    tokens,
    sessions,
    calls,
    balances,
    approvals,
    overview,
    lately,
    metrics,
    notices,
    prices,
    router,
    memory,
    memory_lessons,
    memory_tiers,
    memory_upkeep,
    upstreams,
    reload,
)


def create_admin_app(parts: AdminParts) -> FastAPI:
    """Return the application for the administrators' listener.

    Checking Host and Origin is the listener's part.
    """
    app = FastAPI(
        title="Flyball administration",
        description=DESCRIPTION,
        version=VERSION,
        openapi_url=f"{PREFIX}/openapi.json",
        # The pages that FastAPI could show load their scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=[route for part in _PARTS for route in part.ROUTES.routes],
    )
    app.state.parts = parts
    # The middleware that is added last is met first: a body is read once its sender is known.
    app.add_middleware(BodyLimit, bytes_max=parts.body_bytes_max, larger=_LARGER)
    app.add_middleware(AdministratorsOnly, parts=parts)
    answer_with_problems(app)
    describe_problems(app)
    return app
