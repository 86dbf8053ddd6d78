"""The operators' probes of one sidecar: where they are kept, and that they run with it."""

from contextlib import AsyncExitStack
from pathlib import Path

from ebpf.attachment import Attacher
from ebpf.capability import CapabilityState, Host
from ebpf.custom.probes import CustomProbes
from ebpf.custom.shelf import Shelf

FOLDER = "probes"


def shelf_of(state_dir: Path) -> Shelf:
    """Return where the probes of a state directory are kept."""
    return Shelf(state_dir / FOLDER)


async def probing(stack: AsyncExitStack, host: Host, *, state_dir: Path) -> tuple[Attacher, ...]:
    """Return what hangs the operators' probes on each domain; `stack` ends them.

    They need groups of the v2 hierarchy and the right to load programs.
    """
    if host.capability("probes").state is not CapabilityState.ENFORCED:
        return ()
    probes = CustomProbes(shelf_of(state_dir))
    await stack.enter_async_context(probes.followed())
    return (probes,)
