"""The fixture that most tests of the model front begin with."""

from collections.abc import AsyncIterator

import pytest

from tests.runtime.model_gateway.bench import House, open_house


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        opened.budget(cost_microusd=1_000_000)
        yield opened
