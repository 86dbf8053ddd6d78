"""A problem over HTTP: RFC 9457 for everybody, and OpenAI's member where its clients are."""

import json

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from runtime.errors import ConfigError
from runtime.failures import Fault, invalid, problem_for
from runtime.problem_response import on_http, response_of

PROBLEM = invalid(Fault(field="n", detail="is too large"))


@pytest.mark.parametrize("path", ["/mcp", "/admin/v1/tenants", "/v1", "/v10/models"])
def test_a_problem_is_a_document_of_rfc_9457(path: str) -> None:
    response = response_of(PROBLEM, path=path)

    body = json.loads(response.body)
    assert response.media_type == "application/problem+json"
    assert (body["status"], body["title"], body["instance"]) == (422, "Invalid request", path)
    assert "error" not in body


def test_under_v1_openais_clients_can_read_it_too() -> None:
    body = json.loads(response_of(PROBLEM, path="/v1/models").body)

    assert body["title"] == "Invalid request"
    assert body["error"] == {
        "message": PROBLEM.detail,
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_request",
    }


def test_a_fault_of_ours_is_a_server_error_to_openais_clients() -> None:
    body = json.loads(response_of(problem_for(ConfigError("x")), path="/v1/models").body)

    assert body["error"]["type"] == "server_error"


@pytest.mark.anyio
async def test_what_is_not_served_is_a_problem_that_names_every_method_of_the_path() -> None:
    async def served(_: Request) -> PlainTextResponse:
        return PlainTextResponse("served")

    routes = [Route("/here", served, methods=[method]) for method in ("GET", "POST")]
    app = Starlette(routes=routes, exception_handlers={HTTPException: on_http})
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://a.test") as client:
        nothing = await client.get("/nothing")
        other = await client.delete("/here")

    for answer, status, kind in (
        (nothing, 404, "urn:flyball:problem:not-found"),
        (other, 405, "urn:flyball:problem:method-not-allowed"),
    ):
        assert answer.status_code == status
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["type"] == kind
    assert other.headers["Allow"] == "GET, HEAD, POST"
