"""`flyball stdio`: be the MCP server of the one program that starts it."""

import argparse
import os

import anyio

from runtime.configuration.load import load_config
from runtime.configuration.store_url import store_url_of
from runtime.logs import start_log
from runtime.settings import Settings
from runtime.stopping import StopSignals, run_to_its_end
from runtime.wiring import Sidecar, open_sidecar

LOOK_SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing of its own."""


def run(_: argparse.Namespace, settings: Settings) -> int:
    """Serve until the client is gone; return 0, or 128 and the number of a signal."""
    start_log(settings)
    return run_to_its_end(_serve, settings)


async def _serve(signals: StopSignals, settings: Settings) -> int:
    with anyio.CancelScope() as serving:
        signals.do(serving.cancel)
        config = load_config(settings.config)
        url = store_url_of(config, settings.store_url)
        async with open_sidecar(config, state_dir=settings.state, store_url=url) as sidecar:
            await _until_gone(signals, sidecar)
    return signals.status


async def _until_gone(signals: StopSignals, sidecar: Sidecar) -> None:
    """Serve the client; when it has gone, or a signal came, its calls are ended and settled.

    Gone it is when it closes its end, and when the process that started this one has ended: a
    client that was killed may have left its end open with others.
    """
    async with anyio.create_task_group() as tasks:
        signals.do(tasks.cancel_scope.cancel)
        tasks.start_soon(_stop_when_orphaned, tasks.cancel_scope)
        front = await sidecar.stdio()
        await front.serve()
        tasks.cancel_scope.cancel()
    sidecar.running.stop_all(why="the client has gone")


async def _stop_when_orphaned(serving: anyio.CancelScope) -> None:
    parent_pid = os.getppid()
    if parent_pid <= 1:
        return  # nobody to speak of: init, or a process outside of this container
    while os.getppid() == parent_pid:  # noqa: ASYNC110 - not every system tells of its end
        await anyio.sleep(LOOK_SECONDS)
    serving.cancel()
