"""The parent of a sidecar's processes: starts them, starts the dead again, stops them in order.

It holds the listening sockets, so that no connection is lost while a process is away: what is
not accepted yet waits in the kernel's queue for whoever comes next.
"""

import json
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import Process, TaskGroup

from runtime.clock import SystemClock
from runtime.settings import Settings
from runtime.stop_watch import LATE_SECONDS_MAX, STOP_SECONDS_MAX
from runtime.workers.child import KEEPER, WORKER
from runtime.workers.keeper import CLOSE_SECONDS_MAX

logger = logging.getLogger(__name__)

BACKOFF_SECONDS_MIN = 0.1
BACKOFF_SECONDS_MAX = 10.0
# Who ran for so long did not die of how it starts.
SOUND_AFTER_MS = 30_000
START_SECONDS_MAX = 60.0
# More than a process takes by its own limits to let calls end and to close.
WORKERS_STOP_SECONDS_MAX = STOP_SECONDS_MAX + LATE_SECONDS_MAX + 2.0
KEEPER_STOP_SECONDS_MAX = CLOSE_SECONDS_MAX + LATE_SECONDS_MAX + 2.0


@dataclass(slots=True, kw_only=True)
class Child:
    """One process as the parent knows it, and the words that start it."""

    name: str
    words: tuple[str, ...]
    listening: int
    process: Process | None = None
    started: int = 0
    said: Mapping[str, Any] = field(default_factory=dict)
    is_ready: anyio.Event = field(default_factory=anyio.Event)


class Supervisor:
    """The processes of one sidecar."""

    def __init__(self, settings: Settings, *, workers: int, agents: int, admin: int) -> None:
        """Take the file numbers of the listening sockets; nothing is started."""
        self._settings = settings
        self._clock = SystemClock()
        of_all = ("--workers", str(workers))
        self.keeper = Child(name=KEEPER, words=(KEEPER, *of_all), listening=admin)
        self.workers = tuple(
            Child(
                name=f"{WORKER} {number}",
                words=(WORKER, *of_all, "--worker", str(number)),
                listening=agents,
            )
            for number in range(1, workers + 1)
        )
        self._is_stopping = False
        self._failed = anyio.Event()

    @property
    def children(self) -> tuple[Child, ...]:
        """Return all of them, the keeper first."""
        return (self.keeper, *self.workers)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[bool]:
        """Yield whether all serve; they are stopped, the workers first, when the block ends."""
        async with anyio.create_task_group() as tasks:
            try:
                is_up = await self._started(tasks, self.keeper)
                if is_up:
                    for worker in self.workers:
                        tasks.start_soon(self._keep, worker, name=worker.name)
                    is_up = all([await self._is_up(worker) for worker in self.workers])
                yield is_up
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop()
                tasks.cancel_scope.cancel()

    def forward(self, number: signal.Signals) -> None:
        """Send a signal to every process."""
        for child in self.children:
            _send(child, number)

    def hurry(self) -> None:
        """Have the workers wait for no call any more."""
        for worker in self.workers:
            _send(worker, signal.SIGTERM)

    async def _started(self, tasks: TaskGroup, child: Child) -> bool:
        tasks.start_soon(self._keep, child, name=child.name)
        return await self._is_up(child)

    async def _is_up(self, child: Child) -> bool:
        """Return whether the child serves; False where it, or another one, could not start."""
        with anyio.move_on_after(START_SECONDS_MAX):
            async with anyio.create_task_group() as tasks:

                async def cancel_at(event: anyio.Event) -> None:
                    await event.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(cancel_at, child.is_ready)
                tasks.start_soon(cancel_at, self._failed)
        return child.is_ready.is_set()

    async def _keep(self, child: Child) -> None:
        """Keep one process running, with longer and longer breaks where it dies at once."""
        backoff_s = BACKOFF_SECONDS_MIN
        while not self._is_stopping:
            began_ms = self._clock.elapsed_ms()
            status = await self._run_once(child)
            if self._is_stopping:
                return
            if not child.is_ready.is_set():
                # How it was configured is at fault; it has said so itself.
                self._failed.set()
                return
            if self._clock.elapsed_ms() - began_ms > SOUND_AFTER_MS:
                backoff_s = BACKOFF_SECONDS_MIN
            logger.error(
                "the %s ended (status %s) and is started again in %.1f s",
                *(child.name, status, backoff_s),
            )
            await anyio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_SECONDS_MAX)

    async def _run_once(self, child: Child) -> int:
        """Start the process, hear when it serves, and return how it ended."""
        first = ("--is-first",) if child is self.keeper and child.started == 0 else ()
        child.started += 1
        argv = [
            *(sys.executable, "-m", "runtime.workers", *child.words, *first),
            *("--config", str(self._settings.config), "--state", str(self._settings.state)),
            *("--listening", str(child.listening)),
        ]
        # A session of its own: a terminal's Ctrl-C is for the parent, which passes it on in
        # order. Nothing is ever written to its standard input; its end is ours.
        child.process = process = await anyio.open_process(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            pass_fds=(child.listening,),
            start_new_session=True,
        )
        async with process:
            assert process.stdout is not None, "it was asked for"
            said = b""
            async for part in process.stdout:
                said += part
                if b"\n" in said and not child.is_ready.is_set():
                    child.said = json.loads(said.partition(b"\n")[0])
                    child.is_ready.set()
            return await process.wait()

    async def _stop(self) -> None:
        self._is_stopping = True
        await _ended(self.workers, seconds_max=WORKERS_STOP_SECONDS_MAX)
        await _ended((self.keeper,), seconds_max=KEEPER_STOP_SECONDS_MAX)


async def _ended(children: tuple[Child, ...], *, seconds_max: float) -> None:
    """Ask processes to stop, and kill those that do not within their time."""
    for child in children:
        _send(child, signal.SIGTERM)
    processes = [child.process for child in children if child.process is not None]
    with anyio.move_on_after(seconds_max):
        for process in processes:
            await process.wait()
    for child in children:
        if _send(child, signal.SIGKILL):
            logger.error("the %s did not end within %.0f s and is killed", child.name, seconds_max)
    for process in processes:
        await process.wait()


def _send(child: Child, number: signal.Signals) -> bool:
    """Send a signal, and tell whether there is anybody to take it."""
    if child.process is None or child.process.returncode is not None:
        return False
    child.process.send_signal(number)
    return True
