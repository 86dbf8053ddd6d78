"""What compares the vectors of experiences, as the configuration says."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pydantic import SecretStr

from runtime.configuration.load import parse_config
from runtime.errors import ConfigError
from runtime.ground import store_of
from runtime.seat import ALONE

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("vectors", ["auto", "sketch", "pgvector"])
async def test_an_index_that_is_asked_for_and_not_there_is_told_of(
    vectors: str, tmp_path: Path, store_url: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    config = parse_config(f'[memory]\nvectors = "{vectors}"\n', source="test")
    url = None if store_url is None else SecretStr(store_url)

    async with AsyncExitStack() as stack:
        store = await store_of(stack, config, ALONE, tmp_path / "state", url)

        # The server of the tests has the extension.
        assert store.experience_search.uses_pgvector == (store.is_shared and vectors != "sketch")

    is_missed = vectors == "pgvector" and store_url is None
    assert ("name a PostgreSQL server" in caplog.text) == is_missed


def test_another_word_is_named() -> None:
    with pytest.raises(ConfigError, match=r"memory\.vectors"):
        parse_config('[memory]\nvectors = "faiss"\n', source="test")
