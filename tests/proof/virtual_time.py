"""An event loop that a seed decides on: time is virtual and what is ready runs in any order.

Nothing waits for real. When nothing can run, time jumps to the next timer; when no timer is
left either, nothing will ever happen again and the loop says so.
"""

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import anyio


class StandstillError(Exception):
    """Everybody waits and no timer is set: a deadlock."""


class _Selector(selectors.DefaultSelector):
    """Lets virtual time pass where another selector would sleep."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        # No file is ever looked at: nothing in here comes from outside.
        if timeout is None:
            raise StandstillError
        self.loop.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock and whose order of work come from one seed."""

    def __init__(self, seed: int) -> None:
        selector = _Selector()
        selector.loop = self
        self.now = 0.0
        self._rng = random.Random(f"order/{seed}")
        self._numbers: dict[Any, int] = {}
        super().__init__(selector)
        self.set_task_factory(self._numbered)

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        # Who is woken by one cancellation comes out of a set, in an order of addresses. Only
        # from an order that is the same in each run does the seed decide alone.
        ready = sorted(self._ready, key=self._number_of)
        # Which of several tasks that can go on does so first is nobody's promise.
        self._rng.shuffle(ready)
        self._ready: deque[Any] = deque(ready)
        super()._run_once()  # type: ignore[misc]

    def _numbered(self, _: Any, work: Any, **named: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=self, **named)
        self._numbers[task] = len(self._numbers)
        return task

    def _number_of(self, handle: asyncio.Handle) -> int:
        owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
        return self._numbers.get(owner, -1) if isinstance(owner, asyncio.Task) else -1


def run_virtually(seed: int, main: Callable[[], Awaitable[None]]) -> None:
    """Run `main` in virtual time; the same seed gives the same run."""
    anyio.run(main, backend_options={"loop_factory": lambda: VirtualLoop(seed)})
