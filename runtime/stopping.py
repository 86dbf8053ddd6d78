"""The signals that ask a command to stop, heard from before its first step to its last."""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio


class StopSignals:
    """What SIGINT and SIGTERM do at the moment; each kind of work sets it anew."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.first: signal.Signals | None = None
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

    def note(self, received: signal.Signals) -> None:
        """Take a signal."""
        self.first = self.first or received
        self._asked.set()
        if self._then is not None:
            self._then()


@asynccontextmanager
async def stop_signals() -> AsyncIterator[StopSignals]:
    """Yield the signals to stop, which end nothing by themselves while the block runs."""
    signals = StopSignals()
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:

        async def listen() -> None:
            async for one in received:
                signals.note(one)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, name="signals")
            try:
                yield signals
            finally:
                tasks.cancel_scope.cancel()
