"""The pages, one module for each kind of thing; a new one adds its routes here."""

from starlette.routing import Route

from runtime.console.pages import (
    approvals,
    audit,
    budgets,
    calls,
    frame,
    memory,
    memory_one,
    overview,
    providers,
    router,
    sessions,
    upstreams,
)

ROUTES: list[Route] = [
    *frame.ROUTES,
    *overview.ROUTES,
    *approvals.ROUTES,
    *sessions.ROUTES,
    *budgets.ROUTES,
    *calls.ROUTES,
    *memory.ROUTES,
    *memory_one.ROUTES,
    *router.ROUTES,
    *providers.ROUTES,
    *upstreams.ROUTES,
    *audit.ROUTES,
]
