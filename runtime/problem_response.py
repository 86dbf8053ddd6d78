"""A problem as an HTTP answer (RFC 9457)."""

from http import HTTPStatus
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Match, Route

from runtime.failures import INTERNAL_ERROR, INVALID_REQUEST, Problem

PROBLEM_JSON = "application/problem+json"
# Below this path clients are OpenAI's: their libraries read a member called "error".
_MODEL_PATHS = "/v1/"
_WORDS = {
    HTTPStatus.NOT_FOUND: "There is nothing at this path.",
    HTTPStatus.METHOD_NOT_ALLOWED: "The path does not take this method; Allow names those it does.",
}


def response_of(problem: Problem, *, path: str) -> JSONResponse:
    """Return `problem` as the answer to a request for `path`."""
    document = problem.document(instance=quote(path, errors="replace"))
    if path.startswith(_MODEL_PATHS):
        document["error"] = _as_openai_has_it(problem)
    return JSONResponse(
        document,
        status_code=problem.status,
        headers=dict(problem.headers),
        media_type=PROBLEM_JSON,
    )


async def on_http(request: Request, error: Exception) -> JSONResponse:
    """Return what the framework itself refuses: a path that is not there, another method."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    is_theirs = status < HTTPStatus.INTERNAL_SERVER_ERROR
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_at(request))
    problem = Problem(
        status=status,
        code=INVALID_REQUEST if is_theirs else INTERNAL_ERROR,
        title=status.phrase.capitalize(),
        detail=_WORDS.get(status, error.detail),
        headers=headers,
    )
    return response_of(problem, path=request.scope["path"])


def _methods_at(request: Request) -> list[str]:
    """Return what the path takes: a framework names the methods of the first route alone."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found)


def _as_openai_has_it(problem: Problem) -> dict[str, object]:
    is_theirs = problem.status < HTTPStatus.INTERNAL_SERVER_ERROR
    return {
        "message": problem.detail,
        "type": "invalid_request_error" if is_theirs else "server_error",
        "param": None,
        "code": problem.title.lower().replace(" ", "_"),
    }
