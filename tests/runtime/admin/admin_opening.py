"""Opening an administration on a state directory, as each start of a sidecar would."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

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


@asynccontextmanager
async def opened_world(state_dir: Path, clock: Clock) -> AsyncIterator[World]:
    """Yield the administration of what is in `state_dir`."""
    async with open_store(state_dir, durability=Durability.PROCESS) as store:
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
                state_dir=state_dir,
            )


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
