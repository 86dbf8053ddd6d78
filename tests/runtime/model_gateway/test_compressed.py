"""What a provider compresses, though it was asked not to."""

import gzip

import pytest

from tests.runtime.model_gateway.bench import House
from tests.runtime.model_gateway.test_failures import expect_charged_as_held

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("input.broken-requests")
async def test_an_answer_that_is_compressed_unasked_is_not_inflated(house: House) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    house.provider_answers(200, content=bomb, headers={"Content-Encoding": "gzip"})

    response = await house.chat()

    assert response.status_code == 502
    await expect_charged_as_held(house, why="compressed, unasked")
