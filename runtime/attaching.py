"""What is hung on the domains of local commands for as long as a sidecar runs."""

from contextlib import AsyncExitStack
from pathlib import Path

from ebpf.attachment import Attacher
from ebpf.capability import Host
from runtime.metered import Terms, metered
from runtime.probes import probing


async def attached(
    stack: AsyncExitStack, host: Host, *, state_dir: Path, terms: Terms
) -> tuple[Host, tuple[Attacher, ...]]:
    """Return the host, as far as it turns out to do what it was probed for, and the attachers."""
    host, meters = metered(stack, host, state_dir=state_dir, terms=terms)
    return host, (*meters, *await probing(stack, host, state_dir=state_dir))
