"""What a new state directory is given: a tenant, an agent, an administrator, their tokens."""

import logging
from contextlib import suppress
from pathlib import Path

import anyio

from governor.budget import Budget
from governor.ids import PrincipalId
from memory_store.audit import Actor
from memory_store.errors import AlreadyExistsError
from memory_store.identities import Role
from memory_store.store import Store
from runtime.token_files import (
    ADMIN,
    AGENT,
    TENANT,
    TokenFiles,
    read_token,
    token_files,
    write_token,
)

_ACTOR = Actor(name="first-start")

logger = logging.getLogger(__name__)


async def prepare(
    store: Store, *, state_dir: Path, budgets: tuple[Budget, ...], now_ms: int
) -> TokenFiles:
    """Make what is missing and return where the tokens are; what still works is left alone."""
    with suppress(AlreadyExistsError):
        await store.tenants.create(TENANT, name="Default", by=_ACTOR, now_ms=now_ms)
    files = token_files(state_dir)
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
        if await _is_to_be_kept(store, principal, path, now_ms):
            return
    token = await store.principals.issue_token(
        principal, expires_at_ms=None, by=_ACTOR, now_ms=now_ms
    )
    write_token(path, token.secret)


async def _is_to_be_kept(store: Store, principal: PrincipalId, path: Path, now_ms: int) -> bool:
    """Tell whether the file's token works, or does not for a reason that a new one shares."""
    if not await anyio.Path(path).exists():
        return False
    secret = read_token(path)
    identity = secret and await store.principals.authenticate(secret, now_ms=now_ms)
    if identity and identity.principal == principal:
        return True
    known, tenant = await store.principals.get(principal), await store.tenants.get(TENANT)
    if known.disabled or tenant.disabled:
        return True
    logger.warning("%s held a token that does not work any more; it gets a new one", path)
    return False
