"""A worker: serves agents on the port that all workers share, without a ledger of its own."""

import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import anyio

from memory_store.errors import StoreError
from runtime.clock import SystemClock
from runtime.collector import spare_what_lasts
from runtime.configuration.load import load_config
from runtime.configuration.model import Config
from runtime.configuration.store_url import store_url_of
from runtime.hangup import reloading_on_hangup
from runtime.link.books import OPERATIONS, RemoteGate, remote, remote_store
from runtime.link.client import Link
from runtime.link.house import REPORT_EVERY_SECONDS, House, WorkerReport
from runtime.link.server import bound
from runtime.link.sessions import SharedSessions
from runtime.listeners import Bound, Listeners, SharedSocket
from runtime.seat import Seat, WorkerPart
from runtime.settings import Settings
from runtime.stopping import StopSignals
from runtime.telemetry import exposition
from runtime.wiring import Sidecar, open_sidecar
from runtime.workers.handing import Handing, Ways
from runtime.workers.places import (
    keeper_socket,
    made_folder,
    place_of,
    worker_folder,
    worker_socket,
)
from tool_gateway.telemetry import collects_spans, count_failure


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTerms:
    """Which worker of how many this is, and the file number of the socket that all share."""

    worker: int
    workers: int
    listening: int


async def work(signals: StopSignals, settings: Settings, terms: WorkerTerms) -> None:
    """Serve agents until told to stop.

    Raises:
        StoreError: nobody answers for the ledger.
    """
    with anyio.CancelScope() as starting:
        signals.do(starting.cancel)
        async with AsyncExitStack() as stack:
            config = load_config(settings.config)
            house, part = await _part(stack, config, settings, terms)
            sidecar = await stack.enter_async_context(
                open_sidecar(
                    config,
                    state_dir=worker_folder(settings.state, terms.worker),
                    store_url=store_url_of(config, settings.store_url),
                    reread=lambda: load_config(settings.config),
                    seat=Seat(workers=terms.workers, worker=part),
                )
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_report_for_ever, house, terms.worker, name="report")
                await _serve(signals, sidecar, config, settings, terms)
                tasks.cancel_scope.cancel()


async def _part(
    stack: AsyncExitStack, config: Config, settings: Settings, terms: WorkerTerms
) -> tuple[House, WorkerPart]:
    """Return what this worker has of the keeper, which is connected from now on."""
    state = settings.state
    made_folder(state)
    # Large contents go a way of their own, so that no admission stands behind them.
    link, bulk = (Link(keeper_socket(state), OPERATIONS, worker=terms.worker) for _ in range(2))
    await stack.enter_async_context(link.connected())
    await stack.enter_async_context(bulk.connected())
    ways = Ways(state)
    stack.push_async_callback(ways.aclose)
    house = remote(House, "house", link)
    sessions = SharedSessions(house, clock=SystemClock(), idle_ms=config.session.idle_s * 1000)
    is_on_server = store_url_of(config, settings.store_url) is not None
    part = WorkerPart(
        place=place_of(terms.worker),
        store=None if is_on_server else remote_store(link, bulk=bulk),
        sessions=sessions,
        gate=RemoteGate(house),
        met=sessions.met,
        handing=partial(Handing, ways=ways, worker=terms.worker, workers=terms.workers),
    )
    return house, part


async def _serve(
    signals: StopSignals,
    sidecar: Sidecar,
    config: Config,
    settings: Settings,
    terms: WorkerTerms,
) -> None:
    """Serve until there is a signal; from then on another one ends the wait for calls."""
    shared = Bound(listening=SharedSocket(fileno=terms.listening), url="")
    own = Bound(listening=bound(worker_socket(settings.state, terms.worker)), url="")
    listeners = Listeners(
        agents=(shared, sidecar.agents), private=(own, sidecar.agents), listen=config.listen
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listeners.serve, sidecar.running, name="listeners")
        signals.do(None)
        spare_what_lasts()
        sys.stdout.write("{}\n")
        sys.stdout.flush()
        async with reloading_on_hangup(sidecar, says=False):
            await signals.asked()
        signals.do(listeners.hurry)
        sidecar.turnstile.close()
        listeners.stop()


async def _report_for_ever(house: House, worker: int) -> None:
    """Say how this worker is, until cancelled; a failure is counted and tried again."""
    while True:
        try:
            traced = exposition(openmetrics=True)[0].decode() if collects_spans() else ""
            await house.report(
                WorkerReport(
                    worker=worker,
                    pid=os.getpid(),
                    metrics=exposition()[0].decode(),
                    openmetrics=traced,
                )
            )
        except StoreError:
            count_failure("report")
        await anyio.sleep(REPORT_EVERY_SECONDS)
