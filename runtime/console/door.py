"""The door of the console: who is let in, and which forms are believed."""

import hmac
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_store.audit import Actor
from memory_store.errors import StoreError
from memory_store.identities import Identity, Role
from memory_store.tokens import hash_of
from runtime.console.inside import Inside
from runtime.console.parts import ConsoleParts
from runtime.console.paths import LOGIN, OPEN_PATHS, PREFIX, STATIC
from runtime.console.rendering import page, plain_problem
from runtime.console.throttle import SignInThrottle
from runtime.console.visits import Visit, Visits
from runtime.failures import problem_for
from runtime.http_guard import header_values
from tool_gateway.front.again import body_again

COOKIE = "flyball_console"
CSRF_FIELD = "csrf"
CSRF_HEADER = b"x-csrf-token"
_FORM = "application/x-www-form-urlencoded"
_FIELDS_MAX = 500
_SAFE = frozenset({"GET", "HEAD"})

_FOREIGN = (
    "This form was not sent by a page of the console. Open the console in this window and try "
    "again."
)
_NO_FORM = "Forms here are sent as application/x-www-form-urlencoded, with at most 500 fields."
_STALE = (
    "The page was open for longer than the sign-in lasted. Load it again and repeat what you did."
)


class Door:
    """Lets administrators in who have signed in, and their forms through.

    It stands before the routes, so that neither check can be forgotten by one of them. Behind
    it a request carries its visit, the admin API in the name of who signed in, and its form.
    """

    def __init__(self, app: ASGIApp, *, parts: ConsoleParts) -> None:
        """Take what to protect; nobody has signed in."""
        self._app = app
        self._parts = parts
        self.has_memory = parts.has_memory
        self.visits = Visits(keeper=parts.visits, draw=parts.draw, idle_ms=parts.idle_ms)
        self.throttle = SignInThrottle(now_ms=parts.now_ms())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on with who sent it."""
        if scope["type"] != "http":
            return
        scope["flyball.door"], scope["flyball.now_ms"] = self, self._parts.now_ms()
        request = Request(scope, receive)
        is_safe = request.method in _SAFE
        if is_safe and scope["path"].startswith(STATIC):
            await self._app(scope, receive, send)
            return
        if not is_safe and not _is_from_here(scope):
            await plain_problem(request, HTTPStatus.FORBIDDEN, _FOREIGN)(scope, receive, send)
            return
        try:
            visit, identity = await self._visitor(request)
        except StoreError as error:
            await store_problem(request, error)(scope, receive, send)
            return
        if visit is not None and identity is not None:
            scope["flyball.visit"], scope["flyball.identity"] = visit, identity
            by = Actor(name=identity.principal)
            scope["flyball.inside"] = Inside(self._parts.api, by=by)
        elif scope["path"] not in OPEN_PATHS:
            await _to_login(request)(scope, receive, send)
            return
        if not is_safe:
            body = await request.body()
            refusal = self._refusal(request, body, visit)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
            receive = body_again(body, receive)
        await self._app(scope, receive, send)

    async def sign_in(self, secret: str) -> str | None:
        """Return the cookie of a new visit, None where the token is no administrator's."""
        now_ms = self._parts.now_ms()
        secret_hash = hash_of(secret)
        if await self._administrator(secret_hash, now_ms) is None:
            return None
        return await self.visits.begin(secret_hash, now_ms=now_ms)

    def keep_cookie(self, response: Response, cookie: str | None) -> None:
        """Have the browser keep the cookie of a visit, or forget it."""
        response.set_cookie(
            COOKIE,
            cookie or "",
            max_age=None if cookie else 0,
            path=PREFIX,
            secure=self._parts.is_secure,
            httponly=True,
            samesite="strict",
        )

    async def _visitor(self, request: Request) -> tuple[Visit | None, Identity | None]:
        cookie, now_ms = request.cookies.get(COOKIE), self._parts.now_ms()
        # Parts of a page renew themselves for as long as it is open.
        by_itself = request.method in _SAFE and _is_of_a_part(request)
        visit = None
        if cookie is not None:
            visit = await self.visits.find(cookie, now_ms=now_ms, by_itself=by_itself)
        if visit is None:
            return None, None
        identity = await self._administrator(visit.secret_hash, now_ms)
        if identity is None:
            with suppress(StoreError):
                await self.visits.end(visit.key)  # its token was revoked, or has expired
        return visit, identity

    async def _administrator(self, secret_hash: str, now_ms: int) -> Identity | None:
        identity = await self._parts.doorkeeper.recognise(secret_hash, now_ms=now_ms)
        return identity if identity is not None and identity.role is Role.ADMIN else None

    def _refusal(self, request: Request, body: bytes, visit: Visit | None) -> Response | None:
        """Read the form into the request; return an answer where it is not to be believed."""
        kind = request.headers.get("content-type", _FORM).partition(";")[0].strip().lower()
        try:
            form = parse_qs(
                body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict"
            )
        except ValueError:
            return plain_problem(request, HTTPStatus.BAD_REQUEST, _NO_FORM)
        if kind != _FORM:
            return plain_problem(request, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, _NO_FORM)
        request.scope["flyball.form"] = form
        if visit is None or request.scope["path"] == LOGIN:
            return None  # who signs in has none yet; other origins were refused already
        sent = [*form.get(CSRF_FIELD, []), *header_values(request.scope, CSRF_HEADER)]
        if any(hmac.compare_digest(one.encode(), visit.csrf.encode()) for one in sent):
            return None
        return plain_problem(request, HTTPStatus.FORBIDDEN, _STALE)


def _is_from_here(scope: Scope) -> bool:
    """Tell whether a form was sent by a page of this very origin, another port excluded."""
    sites = header_values(scope, b"sec-fetch-site")
    if sites:
        return sites == ["same-origin"]
    origins, hosts = header_values(scope, b"origin"), header_values(scope, b"host")
    try:
        return len(origins) == 1 and [urlsplit(origins[0]).netloc.lower()] == [
            host.lower() for host in hosts
        ]
    except ValueError:
        return False


def _is_of_a_part(request: Request) -> bool:
    """Tell whether htmx asks, for a part of a page."""
    return request.headers.get("hx-request") == "true"


def _to_login(request: Request) -> Response:
    asked = request.scope["path"]
    if request.method in _SAFE and request.url.query:
        asked += f"?{request.url.query}"
    is_page = request.method in _SAFE and asked not in {PREFIX, f"{PREFIX}/"}
    target = f"{LOGIN}?next={quote(asked, safe='')}" if is_page else LOGIN
    if _is_of_a_part(request):
        # htmx would put the sign-in page into the middle of another; so the whole page goes.
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"HX-Refresh": "true"})
    return RedirectResponse(target, status_code=HTTPStatus.SEE_OTHER)


def door_of(request: Request) -> Door:
    """Return the door that the request came through."""
    door: Door = request.scope["flyball.door"]
    return door


def store_problem(request: Request, error: StoreError) -> Response:
    """Return a page that says why what is stored cannot be read or changed."""
    problem = problem_for(error)
    return page(request, "problem.html", status=problem.status, problem=problem.document())


async def say_next(request: Request, notice: str) -> None:
    """Say on the next page what was done."""
    visit = visit_of(request)
    if visit is not None:
        await door_of(request).visits.tell(visit, notice)


def visit_of(request: Request) -> Visit | None:
    """Return the visit that a request belongs to, None before signing in."""
    visit: Visit | None = request.scope.get("flyball.visit")
    return visit


def inside_of(request: Request) -> Inside:
    """Return the admin API in the name of who sent the request."""
    inside: Inside = request.scope["flyball.inside"]
    return inside


def fields_of(request: Request) -> Mapping[str, str]:
    """Return the fields of a form that was sent, of several of a name the last."""
    form: Mapping[str, Any] = request.scope.get("flyball.form", {})
    return {name: values[-1].strip() for name, values in form.items() if name != CSRF_FIELD}


def choices_of(request: Request, name: str) -> list[str]:
    """Return all that was chosen under one name of a form."""
    form: Mapping[str, list[str]] = request.scope.get("flyball.form", {})
    return form.get(name, [])
