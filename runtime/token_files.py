"""Who there is after a first start, and the files that hold the tokens of these."""

import os
from dataclasses import dataclass
from pathlib import Path

from governor.ids import PrincipalId, TenantId

TENANT = TenantId("default")
AGENT = PrincipalId("agent")
ADMIN = PrincipalId("admin")
AGENT_FILE, ADMIN_FILE = "agent.token", "admin.token"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFiles:
    """Where the first tokens are; each file can be read by its owner alone."""

    agent: Path
    admin: Path


def token_files(state_dir: Path) -> TokenFiles:
    """Return where the first tokens of a state directory are."""
    return TokenFiles(agent=state_dir / AGENT_FILE, admin=state_dir / ADMIN_FILE)


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
