"""A sidecar on its two listeners, from bind to drain."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypedDict

import anyio
from pydantic import SecretStr

from runtime.configuration.model import Config
from runtime.listeners import Listeners, bind
from runtime.reload import Reread
from runtime.wiring import Sidecar, open_sidecar


@asynccontextmanager
async def serving(
    config: Config,
    *,
    state_dir: Path,
    store_url: SecretStr | None = None,
    reread: Reread | None = None,
) -> AsyncIterator[tuple[Sidecar, Listeners]]:
    """Serve while the block runs; at its end calls are drained before anything closes.

    `reread` returns the configuration as its file has it now, where there is a file.

    Raises:
        ListenError: an address cannot be listened on.
        ConfigError: the configuration contradicts itself.
        StoreError: the state directory cannot be used.
    """
    # Bound first: a second sidecar must fail before it touches upstreams or children.
    agents = bind(config.listen.agents, config.listen)
    admin = bind(config.listen.admin, config.listen)
    with agents.listening, admin.listening:
        async with open_sidecar(
            config, state_dir=state_dir, store_url=store_url, reread=reread
        ) as sidecar:
            listeners = Listeners(
                agents=(agents, sidecar.agents), admin=(admin, sidecar.admin), listen=config.listen
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listeners.serve, sidecar.running, name="listeners")
                try:
                    yield sidecar, listeners
                except BaseException:
                    # Nobody is left to wait for calls: they are stopped and settled at once.
                    listeners.hurry()
                    raise
                finally:
                    sidecar.readiness.drain()
                    sidecar.turnstile.close()
                    listeners.stop()


class UpstreamShown(TypedDict):
    """How an upstream is when a sidecar begins to serve."""

    name: str
    state: str
    tools: int
    problem: str | None


def upstreams_shown(sidecar: Sidecar) -> list[UpstreamShown]:
    """Return how each upstream is."""
    return [
        {
            "name": connection.name,
            "state": str(connection.state),
            "tools": len(connection.entries),
            "problem": connection.problem or None,
        }
        for connection in sidecar.fleet.connections
    ]
