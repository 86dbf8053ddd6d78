"""The signals that ask a command to stop, heard from before its first step to its last."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVarTuple, Unpack

import anyio

from runtime import strangers
from runtime.stop_watch import StopWatch

Words = TypeVarTuple("Words")


class StopSignals:
    """What SIGINT and SIGTERM do at the moment; each kind of work sets it anew."""

    def __init__(self, watch: StopWatch | None = None) -> None:
        """Hear nothing yet."""
        self.first: signal.Signals | None = None
        self._watch = watch
        self._asked = anyio.Event()
        self._then: Callable[[], None] | None = None

    @property
    def status(self) -> int:
        """Return the exit status that says which signal ended the command, 0 if none did."""
        return 0 if self.first is None else 128 + self.first

    def do(self, then: Callable[[], None] | None) -> None:
        """Call `then` at each signal from now on; None lets them only be waited for."""
        self._then = then

    async def asked(self) -> None:
        """Return when there has been a signal."""
        await self._asked.wait()

    def end_within(self, seconds: float) -> None:
        """Give what is left of the stop so long, counted from now."""
        if self._watch is not None:
            self._watch.end_within(seconds)

    def note(self, received: signal.Signals) -> None:
        """Take a signal."""
        self.first = self.first or received
        self._asked.set()
        if self._then is not None:
            self._then()


@asynccontextmanager
async def stop_signals(watch: StopWatch | None = None) -> AsyncIterator[StopSignals]:
    """Yield the signals to stop, which end nothing by themselves while the block runs.

    A `watch` hears of them even where the loop, or what runs in it, does not.
    """
    signals = StopSignals(watch)
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        if watch is not None:
            for number in (signal.SIGTERM, signal.SIGINT):
                # The loop hears of signals through a descriptor; its handlers do nothing.
                signal.signal(number, watch.heard)

        async def listen() -> None:
            async for one in received:
                signals.note(one)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, name="signals")
            try:
                yield signals
            finally:
                tasks.cancel_scope.cancel()


def run_to_its_end(
    main: Callable[[StopSignals, Unpack[Words]], Awaitable[int]], *words: *Words
) -> int:
    """Return the status of `main`; once a signal has come, this process ends in bounded time.

    Everything is closed in order. What a plug-in wrote and does not end is left behind, and a
    stop that takes longer than it may is cut short, with its culprits told.
    """
    watch = StopWatch(still_there=strangers.still_there)

    async def whole() -> tuple[int, bool]:
        try:
            async with stop_signals(watch) as signals:
                status = await main(signals, *words)
            watch.over(status)
        finally:
            watch.over()
            has_left = strangers.let_go()
        return status, has_left

    status, has_left = anyio.run(whole)
    if has_left:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        # The interpreter would want to close what is in the middle of something.
        os._exit(status)
    return status
