"""What a new state directory is given: a tenant, an agent, an administrator, their tokens."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from governor.budget import Budget
from governor.ids import PrincipalId, TenantId
from memory_store.audit import Actor
from memory_store.errors import AlreadyExistsError
from memory_store.identities import Role
from memory_store.store import Store

TENANT = TenantId("default")
AGENT = PrincipalId("agent")
ADMIN = PrincipalId("admin")
_ACTOR = Actor(name="first-start")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFiles:
    """Where the first tokens are; each file can be read by its owner alone."""

    agent: Path
    admin: Path


async def prepare(
    store: Store, *, state_dir: Path, budgets: tuple[Budget, ...], now_ms: int
) -> TokenFiles:
    """Make what is missing and return where the tokens are; what exists is left alone."""
    with suppress(AlreadyExistsError):
        await store.tenants.create(TENANT, name="Default", by=_ACTOR, now_ms=now_ms)
    files = TokenFiles(agent=state_dir / "agent.token", admin=state_dir / "admin.token")
    for principal, role, path in (
        (AGENT, Role.AGENT, files.agent),
        (ADMIN, Role.ADMIN, files.admin),
    ):
        await _principal_with_token(store, principal, role, path, now_ms)
    for budget in budgets:
        # The administrator may have changed it since: the file only gives the start.
        with suppress(AlreadyExistsError):
            await store.budgets.create(budget, by=_ACTOR, now_ms=now_ms)
    return files


async def _principal_with_token(
    store: Store, principal: PrincipalId, role: Role, path: Path, now_ms: int
) -> None:
    try:
        await store.principals.create(
            principal, tenant=TENANT, name=principal, role=role, by=_ACTOR, now_ms=now_ms
        )
    except AlreadyExistsError:
        if await anyio.Path(path).exists():
            return
    token = await store.principals.issue_token(
        principal, expires_at_ms=None, by=_ACTOR, now_ms=now_ms
    )
    _write_private(path, token.secret + "\n")


def _write_private(path: Path, text: str) -> None:
    """Write a file that nobody else could read at any moment."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
