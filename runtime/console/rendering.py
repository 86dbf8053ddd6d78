"""Templates into answers, the same frame around each page."""

import hashlib
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from runtime.console import words
from runtime.console.paths import LOGIN, LOGOUT, NAVIGATION, PREFIX, STATIC, TENANT, THEME
from runtime.version import VERSION

if TYPE_CHECKING:
    from jinja2 import Environment

THEME_COOKIE = "flyball_theme"
THEMES = ("auto", "light", "dark")


class _Query(dict[str, str]):
    """What a page was asked with; what was not said is empty."""

    def __missing__(self, key: str) -> str:
        return ""


def page(
    request: Request, template: str, *, status: int = HTTPStatus.OK, **values: Any
) -> HTMLResponse:
    """Return a page made of a template and the values that it names."""
    return HTMLResponse(_rendered(request, template, values), status_code=status)


def plain_problem(request: Request, status: HTTPStatus, detail: str) -> HTMLResponse:
    """Return a page that says what went wrong."""
    problem = {"title": status.phrase, "detail": detail, "status": int(status)}
    return page(request, "problem.html", status=status, problem=problem)


def is_for_part(request: Request) -> bool:
    """Tell whether htmx asks for a part of the page that it shows."""
    headers = request.headers
    return headers.get("hx-request") == "true" and headers.get("hx-boosted") != "true"


def _rendered(request: Request, template: str, values: dict[str, Any]) -> str:
    scope = request.scope
    return (
        _environment()
        .get_template(template)
        .render(
            path=scope["path"],
            query=_Query(request.query_params),
            visit=scope.get("flyball.visit"),
            identity=scope.get("flyball.identity"),
            tenants=scope.get("flyball.tenants", ()),
            waiting=scope.get("flyball.waiting", 0),
            notice=scope.get("flyball.notice"),
            now_ms=scope["flyball.now_ms"],
            theme=theme_of(request),
            **values,
        )
    )


def theme_of(request: Request) -> str:
    """Return which colours somebody chose; `auto` follows the system's."""
    chosen = request.cookies.get(THEME_COOKIE, THEMES[0])
    return chosen if chosen in THEMES else THEMES[0]


@cache
def _environment() -> "Environment":
    # Loaded with the first page: most starts of a process show none.
    from jinja2 import (  # noqa: PLC0415
        Environment,
        PackageLoader,
        StrictUndefined,
        select_autoescape,
    )

    made = Environment(
        loader=PackageLoader("runtime.console"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "amount": words.amount,
        "amount_words": words.amount_words,
        "duration": words.duration,
        "money": words.money,
        "moment": words.moment,
        "number": words.number,
        "plain": words.plain,
        "relative": words.relative,
        "size": words.size,
        "unit_name": words.unit_name,
        "word": words.word,
    }
    made.globals |= {
        "asset": asset,
        "login": LOGIN,
        "logout": LOGOUT,
        "navigation": NAVIGATION,
        "prefix": PREFIX,
        "share_permille": words.share_permille,
        "tenant_path": TENANT,
        "theme_path": THEME,
        "version": VERSION,
        "with_query": _with_query,
    }
    return made


def _shown(value: object) -> object:
    """Return a value as every page shows it: a name that lies about its order lies nowhere."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return words.plain(value)
    return value


def _with_query(path: str, query: dict[str, str], **changes: str | None) -> str:
    """Return a path with a query of which some members are changed; None takes one out."""
    members = {key: value for key, value in {**query, **changes}.items() if value}
    return f"{path}?{urlencode(members)}" if members else path


@cache
def static_files() -> dict[str, bytes]:
    """Return every file that pages load, by its name."""
    folder = resources.files("runtime.console").joinpath("static")
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@cache
def asset(name: str) -> str:
    """Return the path of a file that pages load, another one after each change of the file."""
    digest = hashlib.sha256(static_files()[name]).hexdigest()[:16]
    return f"{STATIC}{name}?v={digest}"
