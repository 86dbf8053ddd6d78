"""What the proofs share: the store under test and the one seed that everything is drawn from."""

import pytest
from proof.stores import FACTORIES, PostgresqlFactory, StoreFactory


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return the seed that pytest prints, so that `--hypothesis-seed` draws the same again."""
    return int(request.config.option.hypothesis_seed)


@pytest.fixture(params=[*(factory.name for factory in FACTORIES), "postgresql"])
def factory(request: pytest.FixtureRequest) -> StoreFactory:
    """Return each kind of store, the one on a server with a database of its own."""
    if request.param == "postgresql":
        return PostgresqlFactory(request.getfixturevalue("database"))
    (chosen,) = [factory for factory in FACTORIES if factory.name == request.param]
    return chosen
