"""A problem as an HTTP answer (RFC 9457)."""

from urllib.parse import quote

from starlette.responses import JSONResponse

from runtime.failures import Problem

PROBLEM_JSON = "application/problem+json"


def response_of(problem: Problem, *, path: str) -> JSONResponse:
    """Return `problem` as the answer to a request for `path`."""
    return JSONResponse(
        problem.document(instance=quote(path, errors="replace")),
        status_code=problem.status,
        headers=dict(problem.headers),
        media_type=PROBLEM_JSON,
    )
