"""Who everybody is while authentication is off."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.store import Store, open_store
from runtime.configuration.model import Auth
from runtime.configuration.open_access import open_caller_of
from runtime.errors import ConfigError
from runtime.first_start import prepare
from runtime.token_files import AGENT, TENANT

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path, durability=Durability.PROCESS) as opened:
        await prepare(opened, state_dir=tmp_path, budgets=(), now_ms=1)
        yield opened


async def test_with_tokens_nobody_is_let_in_without_one(store: Store) -> None:
    assert await open_caller_of(Auth(), store.principals) is None


async def test_everybody_is_the_principal_that_the_file_names(store: Store) -> None:
    caller = await open_caller_of(Auth(mode="none"), store.principals)

    assert caller is not None
    assert (caller.tenant, caller.agent) == (TENANT, AGENT)


@pytest.mark.parametrize("name", ["nobody", "admin"])
async def test_a_principal_that_is_no_agent_is_refused_by_name(store: Store, name: str) -> None:
    with pytest.raises(ConfigError, match=f"auth.principal = '{name}'"):
        await open_caller_of(Auth(mode="none", principal=name), store.principals)


async def test_a_disabled_agent_is_refused(store: Store) -> None:
    await store.principals.disable(AGENT, by=Actor(name="root"), now_ms=2)

    with pytest.raises(ConfigError, match=r"auth\.principal"):
        await open_caller_of(Auth(mode="none"), store.principals)
