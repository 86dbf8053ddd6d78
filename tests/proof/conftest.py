"""What the proofs share: the store under test and the one seed that everything is drawn from."""

import pytest
from proof.stores import FACTORIES, StoreFactory


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return the seed that pytest prints, so that `--hypothesis-seed` draws the same again."""
    return int(request.config.option.hypothesis_seed)


@pytest.fixture(params=FACTORIES, ids=lambda factory: factory.name)
def factory(request: pytest.FixtureRequest) -> StoreFactory:
    chosen: StoreFactory = request.param
    return chosen
