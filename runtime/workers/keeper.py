"""The keeper: the one process of a sidecar that has the ledger and the admin listener."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from memory_store.store import Store
from runtime.clock import SystemClock
from runtime.collector import spare_what_lasts
from runtime.configuration.load import load_config
from runtime.configuration.model import Config
from runtime.configuration.store_url import store_url_of
from runtime.gate_key import gate_key
from runtime.hangup import reloading_on_hangup
from runtime.link.books import OPERATIONS, books_of
from runtime.link.house import House
from runtime.link.server import LinkServer
from runtime.listeners import Bound, Listeners, SharedSocket
from runtime.seat import KeeperPart, Seat
from runtime.serving import upstreams_shown
from runtime.settings import Settings
from runtime.stop_watch import STOP_SECONDS_MAX
from runtime.stopping import StopSignals
from runtime.telemetry import exposition
from runtime.wiring import Sidecar, open_sidecar
from runtime.workers.expositions import merged
from runtime.workers.places import keeper_socket, made_folder, place_of
from tool_gateway.guards.gate import ReasoningGate
from tool_gateway.telemetry import collects_spans

# After the workers were told to stop: they settle what they run before the ledger goes.
WORKERS_GO_SECONDS_MAX = STOP_SECONDS_MAX
# After them: what is the keeper's own to close.
CLOSE_SECONDS_MAX = 10.0


async def keep(
    signals: StopSignals, settings: Settings, *, workers: int, listening: int, is_first: bool
) -> None:
    """Serve administrators on the socket `listening`, and the workers, until told to stop."""
    with anyio.CancelScope() as starting:
        signals.do(starting.cancel)
        config = load_config(settings.config)
        keeper = _Keeper(config, settings, workers=workers)
        seat = Seat(workers=workers, keeper=keeper.part, is_first=is_first)
        url = store_url_of(config, settings.store_url)
        async with open_sidecar(
            config,
            state_dir=settings.state,
            store_url=url,
            reread=lambda: load_config(settings.config),
            seat=seat,
        ) as sidecar:
            bound = Bound(listening=SharedSocket(fileno=listening), url="")
            listeners = Listeners(admin=(bound, sidecar.admin), listen=config.listen)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listeners.serve, sidecar.running, name="listeners")
                signals.do(None)
                spare_what_lasts()
                _say_ready(sidecar)
                async with reloading_on_hangup(sidecar):
                    await signals.asked()
                sidecar.readiness.drain()
                signals.end_within(WORKERS_GO_SECONDS_MAX + CLOSE_SECONDS_MAX)
                await keeper.workers_gone()
                signals.end_within(CLOSE_SECONDS_MAX)
                listeners.stop()


class _Keeper:
    """What the workers are answered with, and what is known of them."""

    def __init__(self, config: Config, settings: Settings, *, workers: int) -> None:
        made_folder(settings.state)
        clock = SystemClock()
        self._path = keeper_socket(settings.state)
        self._workers = workers
        self._house = House(
            clock=clock,
            idle_ms=config.session.idle_s * 1000,
            gate=ReasoningGate(key=gate_key(settings.state), clock=clock),
        )
        self._server: LinkServer | None = None
        self.part = KeeperPart(
            binding=self._house,
            answering=self._answering,
            problems=self._problems,
            metrics=self._metrics,
            # The parent passes it on to every process; here it then finds nothing changed.
            spread_reload=lambda: os.kill(os.getppid(), signal.SIGHUP),
        )

    async def workers_gone(self) -> None:
        """Return when no worker needs the ledger any more, or the time is over."""
        if self._server is not None:
            await self._server.all_gone(seconds_max=WORKERS_GO_SECONDS_MAX)

    @asynccontextmanager
    async def _answering(self, store: Store) -> AsyncIterator[None]:
        self._server = LinkServer(OPERATIONS, books_of(store, self._house))
        async with self._server.listening(self._path):
            yield

    def _problems(self) -> list[str]:
        connected = frozenset() if self._server is None else self._server.workers
        return [] if connected else [f"none of the {self._workers} workers is connected"]

    def _metrics(self, *, openmetrics: bool = False) -> tuple[bytes, str]:
        reports = self._house.reports
        # A worker that has said nothing yet has nothing to show either.
        openmetrics = openmetrics and collects_spans()
        own, media_type = exposition(openmetrics=openmetrics)
        parts = [
            (place_of(one.worker), one.openmetrics if openmetrics else one.metrics)
            for one in reports
        ]
        return merged([("keeper", own.decode()), *parts]).encode(), media_type


def _say_ready(sidecar: Sidecar) -> None:
    """Tell the parent how the upstreams are, in one line."""
    upstreams = upstreams_shown(sidecar)
    shown = {"tools": sum(one["tools"] for one in upstreams), "upstreams": upstreams}
    sys.stdout.write(json.dumps(shown) + "\n")
    sys.stdout.flush()
