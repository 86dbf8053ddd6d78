"""The scripted model: OpenAI's wire format, plainly no model, with figures that add up."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from runtime.tour.scripted_model import LABEL, MODELS, create_app, token_count

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://script.test") as opened:
        yield opened


def chat(text: object = "Name the weights", **fields: object) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    return {"model": "scripted-small", "messages": messages, **fields}


@pytest.mark.parametrize("model", MODELS)
async def test_every_answer_says_that_it_is_scripted(client: httpx.AsyncClient, model: str) -> None:
    body = (await client.post(CHAT, json=chat(model=model))).json()

    assert body["model"] == model
    assert model.startswith("scripted-")
    assert body["choices"][0]["message"]["content"].startswith(LABEL)
    assert body["choices"][0]["finish_reason"] == "stop"


async def test_the_same_request_has_the_same_answer(client: httpx.AsyncClient) -> None:
    first, again = [(await client.post(CHAT, json=chat())).content for _ in range(2)]

    assert first == again


async def test_the_usage_is_counted_on_the_texts(client: httpx.AsyncClient) -> None:
    body = (await client.post(CHAT, json=chat(n=2))).json()

    said = body["choices"][0]["message"]["content"]
    usage = body["usage"]
    assert len(body["choices"]) == 2
    assert usage["completion_tokens"] == 2 * token_count(said)
    assert usage["prompt_tokens"] == token_count("Be brief.") + token_count("Name the weights") + 6
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
async def test_a_limit_on_the_output_cuts_the_answer(client: httpx.AsyncClient, field: str) -> None:
    body = (await client.post(CHAT, json=chat("ü" * 100, **{field: 12}))).json()

    assert body["usage"]["completion_tokens"] <= 12
    assert body["choices"][0]["finish_reason"] == "length"


async def test_the_larger_model_says_more(client: httpx.AsyncClient) -> None:
    small, large = [
        (await client.post(CHAT, json=chat(model=model))).json()["usage"]["completion_tokens"]
        for model in MODELS
    ]

    assert small < large


async def test_content_in_parts_is_read(client: httpx.AsyncClient) -> None:
    parts = [{"type": "text", "text": "Name"}, {"type": "text", "text": "two"}]
    body = (await client.post(CHAT, json=chat(parts))).json()

    assert "You wrote: Name two" in body["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"model": "scripted-small", "messages": [7]}', 400),
        (b'{"model": "scripted-small", "messages": [], "n": "many"}', 400),
        (b'{"model": "gpt-4o", "messages": []}', 404),
    ],
)
async def test_a_request_that_is_not_in_the_script_is_an_error(
    client: httpx.AsyncClient, content: bytes, status: int
) -> None:
    response = await client.post(CHAT, content=content)

    assert response.status_code == status
    assert response.json()["error"]["message"].startswith(LABEL)


async def test_the_models_are_listed(client: httpx.AsyncClient) -> None:
    body = (await client.get("/v1/models")).json()

    assert [model["id"] for model in body["data"]] == list(MODELS)
