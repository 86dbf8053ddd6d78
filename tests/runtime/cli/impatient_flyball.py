"""`flyball` as it is, but that it gives up at once on the upstreams that never end."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

from runtime import cli, stop_watch, stopping, strangers
from runtime.plugins import upstream_kinds
from runtime.stop_watch import StopWatch

BLOCKS = Path("blocks")
patient = upstream_kinds._closed


async def closed(life: Any, task: Any, *, seconds_max: float) -> str:
    """Wait as ever, but for the one that swallows its end."""
    within_s = 0.05 if "swallows" in task.get_name() else 10 * seconds_max
    return await patient(life, task, seconds_max=within_s)


def watching(**terms: Any) -> StopWatch:
    """Return a watch whose time is over as soon as the one blocks that blocks everything."""
    watch = StopWatch(**terms)

    def hurry() -> None:
        pause = threading.Event()
        while not BLOCKS.exists():
            pause.wait(0.05)
        watch.end_within(0.0)

    threading.Thread(target=hurry, daemon=True).start()
    return watch


if __name__ == "__main__":
    # What is closed has to end by itself here, however slow the machine is.
    stop_watch.TAIL_SECONDS_MAX = 600.0
    strangers.GRACE_SECONDS = 0.05
    upstream_kinds._closed = closed
    stopping.StopWatch = partial(watching, seconds_max=600.0)
    cli.main()
