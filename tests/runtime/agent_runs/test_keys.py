"""Keys of agents: each is of its session as long as its agent lives, whatever kills the sidecar."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from memory_store.engine import Durability
from memory_store.errors import StoreUnavailableError
from memory_store.identities import Role
from memory_store.store import Store, open_store
from runtime.agent_runs.keys import FOLDER, RunKeys
from runtime.first_start import prepare
from runtime.token_files import AGENT
from tests.tool_gateway.makers import FakeClock
from tool_gateway.sessions import ImplicitSessions

pytestmark = pytest.mark.anyio

CLOCK = FakeClock()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path, durability=Durability.PROCESS) as opened:
        await prepare(opened, state_dir=tmp_path, budgets=(), now_ms=CLOCK.now_ms())
        yield opened


@pytest.fixture
def sessions() -> ImplicitSessions:
    return ImplicitSessions(clock=CLOCK, idle_ms=1_000)


@pytest.fixture
def sidecar(store: Store, sessions: ImplicitSessions, tmp_path: Path) -> Callable[[], RunKeys]:
    """Makes what a sidecar has that is started on this state directory."""
    return lambda: RunKeys(
        principals=store.principals, binding=sessions, clock=CLOCK, state_dir=tmp_path
    )


async def is_accepted(store: Store, secret: str) -> bool:
    found = await store.principals.authenticate(secret, now_ms=CLOCK.now_ms())
    return found is not None and found.role is Role.AGENT


async def test_a_key_is_of_its_session_until_its_agent_ends(
    store: Store, sessions: ImplicitSessions, sidecar: Callable[[], RunKeys], tmp_path: Path
) -> None:
    async with sidecar().key(AGENT, session_name="mine") as key:
        assert await is_accepted(store, key.secret)
        assert sessions.name_for(key.token_id) == "mine"

    assert not await is_accepted(store, key.secret)
    assert sessions.name_for(key.token_id) != "mine"
    assert list((tmp_path / FOLDER).iterdir()) == []


@pytest.mark.requirement("run.leaves-nothing")
async def test_the_next_sidecar_revokes_the_key_of_an_agent_whose_sidecar_was_killed(
    store: Store, sidecar: Callable[[], RunKeys], tmp_path: Path
) -> None:
    await sidecar().revoke_left()  # nothing is left at the first start

    async with sidecar().key(AGENT, session_name="mine") as key:
        await sidecar().revoke_left()

        assert not await is_accepted(store, key.secret)
        assert list((tmp_path / FOLDER).iterdir()) == []


@pytest.mark.requirement("run.leaves-nothing")
@pytest.mark.requirement("run.key-is-pinned")
async def test_a_key_that_cannot_be_revoked_now_is_revoked_at_the_next_start(
    store: Store,
    sessions: ImplicitSessions,
    sidecar: Callable[[], RunKeys],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailableError

    async with sidecar().key(AGENT, session_name="mine") as key:
        monkeypatch.setattr(store.principals, "revoke_token", away)
    monkeypatch.undo()
    assert sessions.pin_of(key.token_id) == "mine"
    assert await is_accepted(store, key.secret)

    await sidecar().revoke_left()

    assert not await is_accepted(store, key.secret)
