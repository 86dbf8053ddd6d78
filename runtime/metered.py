"""The programs in the kernel that meter local commands, for as long as a sidecar runs."""

import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from ebpf.attachment import Attacher
from ebpf.capability import CapabilityState, Host
from ebpf.errors import ProbeError
from ebpf.executor import instance_of
from ebpf.metering import TRACERS, WITHOUT_OPENS, Metering
from ebpf.probe.pins import Pins

logger = logging.getLogger(__name__)


class Terms(Protocol):
    """What the configuration says of local commands."""

    @property
    def free_loopback(self) -> bool:
        """Whether what goes to this machine itself is no egress."""

    @property
    def watch_opens(self) -> bool:
        """Whether files opened for writing are counted."""


def metered(
    stack: AsyncExitStack, host: Host, *, state_dir: Path, terms: Terms
) -> tuple[Host, tuple[Attacher, ...]]:
    """Return the host and what is to be hung on each domain; `stack` takes it away at the end.

    A host that turns out not to do what it was probed for is returned without it, so that a
    budget on it denies instead of being overrun.
    """
    if host.capability("egress_bytes").state is not CapabilityState.ENFORCED:
        return host, ()
    outlives = host.capability("egress_outlives").state is CapabilityState.ENFORCED
    pins = Pins(instance=instance_of(state_dir), pid=os.getpid()) if outlives else None
    try:
        metering = Metering(
            pins=pins,
            tracers=TRACERS if terms.watch_opens else WITHOUT_OPENS,
            has_free_loopback=terms.free_loopback,
        )
    except ProbeError as error:
        logger.warning("Nothing meters what commands send: %s", error)
        return host.without("egress_bytes", str(error)), ()
    stack.callback(metering.close)
    return host, (metering,)
