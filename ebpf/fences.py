"""The domains that a host's commands run in, of the kind that was found to work on it."""

import hashlib
import os
from pathlib import Path

from ebpf.capability import Host
from ebpf.domains.domain import Domains
from ebpf.domains.observed import ObservedDomains
from ebpf.domains.tree import GroupDomains, shared_limits
from governor.limits import SharedLimits


def instance_of(state_dir: Path) -> str:
    """Return the name of the sidecar that has this state directory."""
    return hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:12]


def observed_on(*, state_dir: Path, uid: int) -> ObservedDomains:
    """Return domains that need nothing of the host; their commands run as `uid`."""
    return ObservedDomains(instance=instance_of(state_dir), pid=os.getpid(), uid=uid)


def domains_on(
    host: Host,
    observed: ObservedDomains,
    state_dir: Path,
    *,
    session: SharedLimits,
    tenant: SharedLimits,
) -> Domains:
    """Return the best domains that the host allows, `observed` where that is all.

    The limits are what all calls of one session, and of one tenant, have together.
    """
    if host.found is None:
        return observed
    return GroupDomains(
        host.found.backend,
        host.found.hierarchies,
        instance=instance_of(state_dir),
        limits_of=shared_limits(tenant=tenant, session=session),
    )
