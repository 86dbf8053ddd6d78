"""What a new state directory is given: a tenant, an agent, an administrator, their tokens."""

import logging
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

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFiles:
    """Where the first tokens are; each file can be read by its owner alone."""

    agent: Path
    admin: Path


def token_files(state_dir: Path) -> TokenFiles:
    """Return where the first tokens of a state directory are."""
    return TokenFiles(agent=state_dir / "agent.token", admin=state_dir / "admin.token")


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


def read_token(path: Path) -> str | None:
    """Return the secret that stands in a token file, None where none can be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def write_token(path: Path, secret: str) -> None:
    """Put a secret in the place of another; nobody but the file's owner ever can read it.

    Raises:
        OSError: the file cannot be written.
    """
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        if path.exists() and os.geteuid() == 0:
            # Root may run the command for a sidecar that runs as somebody else.
            status = path.stat()
            os.fchown(descriptor, status.st_uid, status.st_gid)
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
