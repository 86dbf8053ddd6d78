"""The pages, one module for each kind of thing; a new one adds its routes here."""

from starlette.routing import Route

from runtime.console.pages import budgets, calls, frame, overview, sessions

ROUTES: list[Route] = [
    *frame.ROUTES,
    *overview.ROUTES,
    *calls.ROUTES,
    *sessions.ROUTES,
    *budgets.ROUTES,
]
