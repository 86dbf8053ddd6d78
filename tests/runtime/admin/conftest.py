from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.identities import Role
from memory_store.store import Store, open_store
from runtime.admin import create_admin_app
from tests.runtime.admin.admin_world import (
    ADMIN,
    AGENT,
    TENANT,
    Clock,
    Commands,
    World,
    parts_for,
)

FOUNDER = Actor(name="first-start")


@pytest.fixture
def open_world(begun_state: Path) -> Callable[[], AbstractAsyncContextManager[World]]:
    """Opens the same state directory each time, as a restarted sidecar would."""
    clock = Clock()

    @asynccontextmanager
    async def opened() -> AsyncIterator[World]:
        async with open_store(begun_state, durability=Durability.PROCESS) as store:
            secrets = await _founded(store, clock)
            commands = Commands()
            parts = parts_for(store, clock, commands)
            # An error that nobody foresaw is raised again for the server's log; the tests
            # look at what was answered.
            transport = httpx.ASGITransport(create_admin_app(parts), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
                yield World(
                    client=client,
                    parts=parts,
                    clock=clock,
                    commands=commands,
                    admin_secret=secrets[ADMIN],
                    agent_secret=secrets[AGENT],
                    state_dir=begun_state,
                )

    return opened


@pytest.fixture
async def world(
    open_world: Callable[[], AbstractAsyncContextManager[World]],
) -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


async def _founded(store: Store, clock: Clock) -> dict[str, str]:
    """Return fresh secrets of one administrator and one agent, made if they are not there."""
    now_ms = clock.now_ms()
    known = await store.tenants.page()
    if not known.items:
        await store.tenants.create(TENANT, name="Acme", by=FOUNDER, now_ms=now_ms)
        for principal, role in ((ADMIN, Role.ADMIN), (AGENT, Role.AGENT)):
            await store.principals.create(
                principal, tenant=TENANT, name=principal, role=role, by=FOUNDER, now_ms=now_ms
            )
    return {
        principal: (
            await store.principals.issue_token(
                principal, expires_at_ms=None, by=FOUNDER, now_ms=now_ms
            )
        ).secret
        for principal in (ADMIN, AGENT)
    }
