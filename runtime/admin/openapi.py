"""The description of the interface, for programs and for those who write them."""

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from runtime.problem_response import PROBLEM_JSON

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


class FaultOut(BaseModel):
    """What is wrong with one field."""

    field: str
    detail: str


class ProblemOut(BaseModel):
    """A problem document (RFC 9457); some types carry further members."""

    model_config = ConfigDict(extra="allow", title="Problem")

    type: str = Field(description="a stable name for programs to match on")
    title: str
    status: int
    detail: str
    instance: str | None = None
    errors: list[FaultOut] | None = None


def problems(*statuses: int) -> Responses:
    """Return the description of answers with a problem document."""
    return {status: {"model": ProblemOut, "description": _MEANINGS[status]} for status in statuses}


EVERYWHERE = problems(401, 403, 422, 503)
WITH_BODY = problems(400, 413)


def describe_problems(app: FastAPI) -> None:
    """Let the description of `app` name the media type of its problem documents.

    FastAPI files every model under the route's own media type.
    """
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        schema = describe()
        for path in schema["paths"].values():
            for operation in path.values():
                for status, response in operation["responses"].items():
                    content = response.get("content", {})
                    if status >= "400" and "application/json" in content:
                        content[PROBLEM_JSON] = content.pop("application/json")
        return schema

    app.openapi = openapi  # type: ignore[method-assign]  # the way that FastAPI documents
