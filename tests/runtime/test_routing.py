"""What a router that is put together says to those who ask it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from governor.policy import Policy
from memory_store.engine import Durability
from memory_store.store import open_store
from runtime.clock import SystemClock
from runtime.configuration.model import Config
from runtime.configuration.router import RouterTable
from runtime.in_force import InForce
from runtime.router.in_force import RouterInForce, Versioned
from runtime.routing import routing_of
from runtime.seat import ALONE
from tests.runtime.router.makers import KnownModel

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class FixedModel(KnownModel):
    """A model that foretells texts without reading them."""

    def predict(self, text: str) -> Any:
        return SimpleNamespace(tiers=self._forecasts)


@pytest.mark.parametrize(
    ("mode", "is_asked"), [("learned", True), ("rules", False), ("off", False)]
)
async def test_a_model_foretells_only_where_it_also_chooses(
    tmp_path: Path, mode: Any, *, is_asked: bool
) -> None:
    config = Config().model_copy(update={"router": RouterTable(mode=mode)})
    async with open_store(tmp_path / "state", durability=Durability.PROCESS) as store:
        in_force = InForce(config, cast("Policy", None))
        routing = routing_of(in_force, store, seat=ALONE, clock=SystemClock())
        incumbent = Versioned(version="abc", model=FixedModel({"low": 0.5}, {"low": 1.0}))
        routing.models._now = RouterInForce(incumbent=incumbent)

        assert (routing.foretell("Why?") is not None) is is_asked
