"""SIGHUP: the configuration is read again, and what came of it is said on standard error."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from memory_store.audit import Actor
from memory_store.errors import StoreError
from runtime.errors import ConfigError
from runtime.logs import remark
from runtime.wiring import Sidecar

# The space keeps principals from the name.
BY_SIGNAL = Actor(name="signal HUP")


@asynccontextmanager
async def reloading_on_hangup(sidecar: Sidecar, *, says: bool = True) -> AsyncIterator[None]:
    """Reload at each SIGHUP while the block runs; one of several processes `says` what came."""
    with anyio.open_signal_receiver(signal.SIGHUP) as received:

        async def listen() -> None:
            async for _ in received:
                told, is_done = await _reload(sidecar)
                if says or not is_done:
                    remark(told)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, name="reload")
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()


async def _reload(sidecar: Sidecar) -> tuple[str, bool]:
    """Return what came of a reload, in words, and whether it was done."""
    try:
        return (await sidecar.reload(by=BY_SIGNAL)).told, True
    except (ConfigError, StoreError) as error:
        return f"the configuration was not reloaded and nothing has changed:\n{error}", False
