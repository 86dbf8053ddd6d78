"""The description of the interface, for programs and for those who write them."""

from typing import Any

from fastapi import APIRouter, FastAPI, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from runtime.problem_response import PROBLEM_JSON

PREFIX = "/admin/v1"

Responses = dict[int | str, dict[str, Any]]

DESCRIPTION = """\
Budgets, people, sessions, records and health of one Flyball sidecar.

An administrator of any tenant administers all tenants: the tenant of an administrator says
where it is listed, not what it may do. Give the role to those who may do everything.

Times are those of the host's clock, in epoch milliseconds. A clock that jumps ahead ends
holds and tokens early, opens the next window of a budget and purges records before their
time; none of that is undone when it jumps back.
"""

_MEANINGS = {
    400: "The body is not JSON.",
    401: "No valid token.",
    403: "Not an administrator's token.",
    404: "There is no such thing.",
    409: "It contradicts what is stored.",
    412: "If-Match names another version.",
    413: "The body is too large.",
    422: "Fields are at fault; `errors` names them.",
    503: "The store, or another part, cannot be relied on now.",
}


class Fault(BaseModel):
    """What is wrong with one field."""

    field: str
    detail: str


class Problem(BaseModel):
    """A problem document (RFC 9457); some types carry further members."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="a stable name for programs to match on")
    title: str
    status: int
    detail: str
    instance: str | None = None
    errors: list[Fault] | None = None


_SCHEMAS = "#/components/schemas/"
_PROBLEM = {PROBLEM_JSON: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}


def problems(*statuses: int) -> Responses:
    """Return the description of answers with a problem document.

    It names the model and does not hand it to FastAPI, which would make a validator of it for
    each status of each route, and file it under the route's own media type.
    """
    return {status: {"description": _MEANINGS[status], "content": _PROBLEM} for status in statuses}


EVERYWHERE = problems(401, 403, 422, 503)
WITH_BODY = problems(400, 413)

# The token is checked before the routes; here it is only described.
_TOKEN = Security(HTTPBearer(auto_error=False, description="an administrator's token"))


def governed_routes(
    path: str = "", *, tag: str | None = None, responses: Responses | None = None
) -> APIRouter:
    """Return the routes below `path` that only an administrator may use, none yet.

    They are whole as they stand: a router that is included in another, or in an application,
    is made anew for each, which takes longer than all else that a sidecar does at its start.
    """
    return APIRouter(
        prefix=PREFIX + path,
        tags=None if tag is None else [tag],
        dependencies=[_TOKEN],
        responses=EVERYWHERE | (responses or {}),
    )


def describe_problems(app: FastAPI) -> None:
    """Add the problem document to the description of `app`."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        schema = describe()
        components = schema["components"]
        components["schemas"] = dict(sorted((components["schemas"] | _problem_schemas()).items()))
        return schema

    app.openapi = openapi  # type: ignore[method-assign]  # the way that FastAPI documents


def _problem_schemas() -> dict[str, Any]:
    problem = Problem.model_json_schema(mode="serialization", ref_template=f"{_SCHEMAS}{{model}}")
    return {**problem.pop("$defs"), "Problem": problem}
