from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.runtime.admin.admin_opening import opened_world
from tests.runtime.admin.admin_world import Clock, World


@pytest.fixture
def open_world(begun_state: Path) -> Callable[[], AbstractAsyncContextManager[World]]:
    """Opens the same state directory each time, as a restarted sidecar would."""
    return partial(opened_world, begun_state, Clock())


@pytest.fixture
async def world(
    open_world: Callable[[], AbstractAsyncContextManager[World]],
) -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened
