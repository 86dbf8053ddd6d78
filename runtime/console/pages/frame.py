"""Signing in and out, the choice of colours and of a tenant, and the files of pages."""

import mimetypes
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from runtime.console.door import door_of, fields_of, inside_of, visit_of
from runtime.console.inside import part
from runtime.console.paths import LOGIN, LOGOUT, PREFIX, STATIC, TENANT, THEME
from runtime.console.rendering import THEME_COOKIE, THEMES, page, static_files
from runtime.console.words import duration_words

_YEAR_S = 365 * 24 * 3600
_WRONG = "This is not the token of an administrator, or it was revoked or has expired."


async def login_page(request: Request) -> Response:
    """Return the page to sign in, or go on where somebody has."""
    target = _inner(request.query_params.get("next"))
    if visit_of(request) is not None and "flyball.inside" in request.scope:
        return _see(target)
    return page(request, "login.html", target=target, fault=None)


async def login(request: Request) -> Response:
    """Begin a visit with an administrator's token."""
    fields, door = fields_of(request), door_of(request)
    target = _inner(fields.get("next"))
    address = request.client.host if request.client else ""
    now_ms: int = request.scope["flyball.now_ms"]
    wait_ms = door.throttle.take(address, now_ms=now_ms)
    if wait_ms:
        seconds = -(-wait_ms // 1000)
        fault = f"Too many tries. Wait {duration_words(seconds * 1000)}, then try again."
        refused = page(
            request, "login.html", status=HTTPStatus.TOO_MANY_REQUESTS, target=target, fault=fault
        )
        refused.headers["Retry-After"] = str(seconds)
        return refused
    cookie = await door.sign_in(fields.get("token", ""))
    if cookie is None:
        return page(
            request, "login.html", status=HTTPStatus.UNAUTHORIZED, target=target, fault=_WRONG
        )
    door.throttle.give_back(address)
    earlier = visit_of(request)
    if earlier is not None:
        await door.visits.end(earlier.key)
    response = _see(target)
    door.keep_cookie(response, cookie)
    return response


async def logout(request: Request) -> Response:
    """End the visit."""
    door, visit = door_of(request), visit_of(request)
    if visit is not None:
        await door.visits.end(visit.key)
    response = _see(LOGIN)
    door.keep_cookie(response, None)
    return response


async def choose_theme(request: Request) -> Response:
    """Keep which colours somebody prefers."""
    fields = fields_of(request)
    chosen = fields.get("theme", THEMES[0])
    response = _see(_inner(fields.get("next")))
    response.set_cookie(
        THEME_COOKIE,
        chosen if chosen in THEMES else THEMES[0],
        max_age=_YEAR_S,
        path=PREFIX,
        httponly=True,
        samesite="strict",
    )
    return response


async def choose_tenant(request: Request) -> Response:
    """Show the things of one tenant from now on, or everybody's."""
    fields, visit = fields_of(request), visit_of(request)
    wanted = fields.get("tenant") or None
    if wanted is not None:
        await inside_of(request).get(f"/tenants/{part(wanted)}")  # there is one, or 404
    if visit is not None:
        await door_of(request).visits.show(visit, wanted)
    # Without the query: a cursor is a place in another listing.
    return _see(urlsplit(_inner(fields.get("next"))).path)


async def static_file(request: Request) -> Response:
    """Return a file that pages load; its name in a page changes with what is in it."""
    name = request.path_params["name"]
    content = static_files().get(name)
    if content is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    is_named_by_content = "v" in request.query_params
    kept = f"max-age={_YEAR_S}, immutable" if is_named_by_content else "no-cache"
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(content, media_type=kind, headers={"Cache-Control": f"private, {kept}"})


def _inner(target: str | None) -> str:
    """Return where to go on: a path of the console, nothing that leads out of it."""
    if target is None or not (target == PREFIX or target.startswith((f"{PREFIX}/", f"{PREFIX}?"))):
        return PREFIX
    return PREFIX if any(mark in target for mark in ("\\", "\n", "\r", "//")) else target


def _see(target: str) -> RedirectResponse:
    return RedirectResponse(target, status_code=HTTPStatus.SEE_OTHER)


ROUTES = [
    Route(LOGIN, login_page, methods=["GET"]),
    Route(LOGIN, login, methods=["POST"]),
    Route(LOGOUT, logout, methods=["POST"]),
    Route(THEME, choose_theme, methods=["POST"]),
    Route(TENANT, choose_tenant, methods=["POST"]),
    Route(STATIC + "{name}", static_file, methods=["GET"]),
]
