"""A problem as an HTTP answer (RFC 9457)."""

from http import HTTPStatus
from urllib.parse import quote

from starlette.responses import JSONResponse

from runtime.failures import Problem

PROBLEM_JSON = "application/problem+json"
# Below this path clients are OpenAI's: their libraries read a member called "error".
_MODEL_PATHS = "/v1/"


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


def _as_openai_has_it(problem: Problem) -> dict[str, object]:
    is_theirs = problem.status < HTTPStatus.INTERNAL_SERVER_ERROR
    return {
        "message": problem.detail,
        "type": "invalid_request_error" if is_theirs else "server_error",
        "param": None,
        "code": problem.title.lower().replace(" ", "_"),
    }
