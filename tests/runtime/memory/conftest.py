from collections.abc import AsyncIterator
from itertools import count

import pytest

from runtime.wiring import Sidecar
from tests.runtime.memory.house import House, a_sidecar, settled_in

_numbers = count()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run the sidecar that a module's tests share on the loop of them all."""
    return "asyncio"


@pytest.fixture(scope="module")
async def sidecar(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sidecar]:
    async with a_sidecar(tmp_path_factory.mktemp("memory")) as opened:
        yield opened


@pytest.fixture
async def house(sidecar: Sidecar, request: pytest.FixtureRequest) -> House:
    """A house with agents of its own; parametrize it indirectly to name them."""
    return await settled_in(sidecar, getattr(request, "param", str(next(_numbers))))
