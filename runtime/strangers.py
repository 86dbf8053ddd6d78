"""What strangers wrote, in tasks of its own: one that does not end when told to is left behind.

A plug-in can swallow its cancellation, and whoever waits for it in a task of ours would then
wait for ever. Here nobody does: it has a moment, and is left where it is.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio

logger = logging.getLogger(__name__)

# What was told to end has this long to do so.
GRACE_SECONDS = 1.0
# Whoever has left so many behind is asked no more.
LEFT_MAX = 16

# Referred to from here, or the loop would forget them while they wait.
_under_way: set["asyncio.Task[object]"] = set()
_left: set["asyncio.Task[object]"] = set()
_resting: set["asyncio.Task[object]"] = set()

Answer = TypeVar("Answer")


class NotEndingError(Exception):
    """Too many of its calls do not end when told to; start the sidecar again without it."""


async def apart(name: str, work: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return what `work` returns; when the caller is cancelled it is told to end, and left.

    Raises:
        NotEndingError: too much of that name was left behind already.
    """
    task = begun(name, work)
    try:
        await asyncio.wait([task])
    except BaseException:
        await ended(task)
        raise
    return task.result()


def begun(name: str, work: Callable[[], Awaitable[Answer]]) -> "asyncio.Task[Answer]":
    """Return the task that does a stranger's work; whoever begins it ends it.

    Raises:
        NotEndingError: too much of that name was left behind already.
    """
    if sum(task.get_name() == name for task in _left) >= LEFT_MAX:
        raise NotEndingError(str(NotEndingError.__doc__))

    async def worked() -> Answer:
        return await work()

    # In no task group: a group cannot end before everything in it has.
    task = asyncio.get_running_loop().create_task(worked(), name=name)
    _under_way.add(task)
    task.add_done_callback(_forget)
    return task


async def ended(task: "asyncio.Task[Answer]") -> bool:
    """Tell a task to end, and return whether it did; if not, it is left behind."""
    task.cancel()
    with anyio.CancelScope(shield=True):
        await asyncio.wait([task], timeout=GRACE_SECONDS)
    if not task.done():
        _left.add(task)
        logger.error("%s does not end when told to; it is left behind", task.get_name())
    return task.done()


@contextmanager
def resting() -> Iterator[None]:
    """Do what is ours in a task of a stranger's: while it does, the stranger is in no way."""
    task = asyncio.current_task()
    assert task is not None, "a task does this"
    _resting.add(task)
    try:
        yield
    finally:
        _resting.discard(task)


def still_there() -> tuple[str, ...]:
    """Return the names of what strangers do now, or were told to end and did not."""
    return tuple(sorted({task.get_name() for task in _under_way.copy() - _resting.copy()}))


def let_go() -> bool:
    """Let the running loop end without what is left behind; tell whether there is any."""
    loop = asyncio.get_running_loop()
    left = [task for task in _left if task.get_loop() is loop]
    for task in left:
        # A loop that is closed waits for every task that it knows of.
        asyncio.tasks._unregister_task(task)  # noqa: SLF001 - as who makes tasks may
    if left:
        # And complains of generators that are in the middle of something.
        loop.set_exception_handler(lambda *_: None)
    return bool(left)


def _forget(task: "asyncio.Task[object]") -> None:
    _under_way.discard(task)
    _left.discard(task)
    if not task.cancelled():
        # Asked for by nobody where it was left; that is no fault of the loop's.
        task.exception()
