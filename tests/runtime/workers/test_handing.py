"""What another worker keeps is handed on to it as it came, and its answer back as it was given."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.link.server import bound
from runtime.listeners import SignalFreeServer
from runtime.workers.handing import Handing, Ways
from runtime.workers.places import made_folder, worker_socket

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def saying(who: str, *parts: bytes) -> ASGIApp:
    """An application that tells who served a request, and what came of it there."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive()).get("body", b"")
        told = {
            "who": who,
            "method": scope["method"],
            "path": scope["path"],
            "query": scope["query_string"].decode(),
            "headers": {name.decode(): value.decode() for name, value in scope["headers"]},
            "body": body.decode(),
        }
        headers = [(b"content-type", b"application/json"), (b"x-served-by", who.encode())]
        await send({"type": "http.response.start", "status": 203, "headers": headers})
        for part in (json.dumps(told).encode(), *parts):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


@asynccontextmanager
async def served(app: ASGIApp, path: Path) -> AsyncIterator[None]:
    server = SignalFreeServer(uvicorn.Config(app, lifespan="off", log_config=None))
    listening = bound(path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listening])
        with anyio.fail_after(60):
            while not server.started:
                await anyio.sleep(0.01)
        yield
        server.should_exit = True


@asynccontextmanager
async def two(folder: Path, other: ASGIApp | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of worker 1, beside worker 2."""
    made_folder(folder)
    ways = Ways(folder)
    here = Handing(saying("w1"), ways=ways, worker=1, workers=2)
    async with (
        aclosing(ways),
        served(other or saying("w2"), worker_socket(folder, 2)),
        served(here, folder / "front.sock"),
        httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(folder / "front.sock")),
            base_url="http://localhost",
            timeout=60,
        ) as client,
    ):
        yield client


def state(place: str) -> bytes:
    return json.dumps({"params": {"requestState": f"flyball.{place}.abc.def"}}).encode()


async def test_a_request_arrives_as_it_was_sent_and_its_answer_as_it_was_given(
    tmp_path: Path,
) -> None:
    async with two(tmp_path) as client:
        answer = await client.post(
            "/mcp?a=1&b=%20", content=b"{}", headers={"mcp-session-id": "abc-w2", "x-own": "own"}
        )
    told: dict[str, Any] = answer.json()

    assert (answer.status_code, answer.headers["x-served-by"]) == (203, "w2")
    assert (told["who"], told["method"], told["path"]) == ("w2", "POST", "/mcp")
    assert (told["query"], told["body"]) == ("a=1&b=%20", "{}")
    assert told["headers"]["host"] == "localhost"
    assert told["headers"]["mcp-session-id"] == "abc-w2"
    assert told["headers"]["x-own"] == "own"


@pytest.mark.parametrize(
    ("path", "headers", "body", "served_by"),
    [
        ("/mcp", {"mcp-session-id": "abc-w2"}, b"", "w2"),
        ("/mcp", {"mcp-session-id": "abc-w1"}, state("w2"), "w1"),
        ("/mcp", {"mcp-session-id": "abc-w3"}, b"", "w1"),
        ("/mcp", {"mcp-session-id": "a-name-of-its-own"}, b"", "w1"),
        ("/mcp", {}, state("w2"), "w2"),
        ("/mcp", {}, state("w1"), "w1"),
        ("/mcp", {}, b'{"requestState": "flyball.w2.x"}', "w1"),
        ("/mcp", {}, b'{"params": {"requestState": ["w2"]', "w1"),
        ("/mcp", {}, b'{"params": {"requestState": "theirs.w2.x"}}', "w1"),
        ("/sse/messages/w2", {}, b"", "w2"),
        ("/sse/messages", {}, b"", "w1"),
        ("/v1/models", {}, b"", "w1"),
    ],
)
async def test_who_keeps_something_is_told_by_what_names_it(
    tmp_path: Path, path: str, headers: dict[str, str], body: bytes, served_by: str
) -> None:
    async with two(tmp_path) as client:
        answer = await client.post(path, headers=headers, content=body)

    assert answer.json()["who"] == served_by


async def test_where_nobody_answers_the_request_is_served_here(tmp_path: Path) -> None:
    async with two(tmp_path) as client:
        worker_socket(tmp_path, 2).unlink()
        answer = await client.post("/mcp", headers={"mcp-session-id": "abc-w2"})

    assert answer.json()["who"] == "w1"


async def test_a_stream_is_handed_back_part_by_part_and_ends_when_its_client_goes(
    tmp_path: Path,
) -> None:
    gone = anyio.Event()

    async def endless(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            """It never ends by itself."""
        gone.set()

    with anyio.fail_after(60):
        async with two(tmp_path, endless) as client:
            async with client.stream("GET", "/mcp", headers={"mcp-session-id": "a-w2"}) as answer:
                parts = answer.aiter_raw()
                first = await anext(parts)
            await gone.wait()

    assert first == b"first"
