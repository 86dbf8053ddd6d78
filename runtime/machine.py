"""The executor of local commands, as the configuration wants it."""

from collections.abc import Sequence
from pathlib import Path

from ebpf.attachment import Attacher
from ebpf.capability import Host
from ebpf.command import Level
from ebpf.executor import LocalExecutor
from runtime.configuration.machine import Local, shared_limits
from runtime.configuration.model import Config
from runtime.endings import Shares


def executor_of(
    config: Config, *, host: Host, state_dir: Path, attachers: Sequence[Attacher] = ()
) -> LocalExecutor:
    """Return the executor for a host and a state directory; `attachers` hang on each domain.

    Raises:
        CapabilityMissingError: the sidecar is root, and `local.user` is no unprivileged user.
    """
    local = config.local
    return LocalExecutor(
        host=host,
        state_dir=state_dir,
        user=local.user,
        session_limits=shared_limits(local.session),
        tenant_limits=shared_limits(local.tenant),
        attachers=attachers,
    )


def shares_of(local: Local) -> Shares:
    """Return what all calls of a session, and of a tenant, may have together."""
    return {
        Level.SESSION: shared_limits(local.session),
        Level.TENANT: shared_limits(local.tenant),
    }
