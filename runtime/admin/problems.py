"""Every error that leaves the admin interface, as a problem document (RFC 9457)."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from governor.errors import GovernorError
from memory_store.errors import StoreError
from runtime.errors import RuntimeFaultError
from runtime.failures import (
    INVALID_REQUEST,
    Fault,
    Problem,
    invalid,
    problem_for,
)
from runtime.fault_words import tables_in
from runtime.problem_response import on_http, response_of
from runtime.request_faults import FAULTS_MAX, fault_of
from tool_gateway.errors import GatewayError

_OURS = (StoreError, GatewayError, GovernorError, RuntimeFaultError)


def answer_with_problems(app: FastAPI) -> None:
    """Make `app` answer each error with a problem document."""
    for kind in _OURS:
        app.add_exception_handler(kind, _on_error)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    # Starlette raises the error again after this answer, so that the server logs it.
    app.add_exception_handler(Exception, _on_error)


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    return response_of(problem_for(error), path=request.scope["path"])


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if found and found[0]["type"] == "json_invalid":
        problem = _not_json(found[0])
    else:
        problem = invalid(*(_fault(entry, request) for entry in found[:FAULTS_MAX]))
    return response_of(problem, path=request.scope["path"])


def _not_json(entry: Any) -> Problem:
    place = entry["loc"][-1]
    return Problem(
        status=HTTPStatus.BAD_REQUEST,
        code=INVALID_REQUEST,
        title="Malformed JSON",
        detail=f"The body is not JSON: {entry['ctx']['error']} (at character {place}).",
    )


def _fault(entry: Any, request: Request) -> Fault:
    """Return what pydantic found, without the value, which may be a secret."""
    location: Sequence[str | int] = entry["loc"]
    # The first part says where the field is (body, query, path), unless it is all there is.
    where, *path = location
    if isinstance(entry.get("input"), bytes):
        name = ".".join(map(str, path)) or str(where)
        return Fault(field=name, detail="Send JSON, with Content-Type: application/json")
    return fault_of(entry, path=path or [where], shapes=_shapes(request, in_body=where == "body"))


def _shapes(request: Request, *, in_body: bool) -> list[type[BaseModel]]:
    """Return what the body or the query of a request may look like."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return []
    parameters = route.dependant.body_params if in_body else route.dependant.query_params
    return [shape for each in parameters for shape in tables_in(each.field_info.annotation)]
