"""The connections of one listener that wait for their client, each for as long as it may.

Whoever opens connections and says nothing, or little by little, keeps them no longer than the
bounds, is looked at ever more seldom, and gives way first when there is no room for others.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from opentelemetry import metrics

SWEEP_SECONDS = 0.05
# So many are closed at one time: a crowd that is closed comes back, which costs more than its wait.
CLOSED_AT_ONCE = 8
# A body that brings so much has its time again: who sends a large one need not be slow.
PROGRESS_BYTES = 512 * 1024
# A request in more pieces than that, small ones, is read on after ever longer pauses.
FREE_PIECES = 3
PIECE_BYTES = 1_024
PAUSE_SECONDS = 0.25
PAUSE_SECONDS_MAX = 4.0
_closed = metrics.get_meter("flyball.runtime").create_counter(
    "flyball_connections_closed", description="Connections given up by a listener, by why"
)


class Wait(StrEnum):
    """What a connection waits for: a request, the rest of its head or body, a reader."""

    REQUEST = "request"
    HEAD = "head"
    BODY = "body"
    READER = "reader"


SECONDS_MAX: Mapping[Wait, float] = {
    Wait.REQUEST: 60.0,
    Wait.HEAD: 10.0,
    Wait.BODY: 30.0,
    Wait.READER: 60.0,
}


class Closable(Protocol):
    """A connection."""

    def give_up(self, wait: Wait) -> None:
        """Close: the client took too long for `wait`."""
        ...

    def give_way(self) -> None:
        """Close: others need the room."""
        ...


class Waiting:
    """Who waits, in the order in which they began to, and whom it costs least to close."""

    def __init__(self) -> None:
        """Start with none."""
        self._since: dict[Wait, OrderedDict[Closable, float]] = {
            wait: OrderedDict() for wait in Wait
        }
        self._resting: OrderedDict[Closable, None] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None

    def only(self, connection: Closable, wait: Wait | None) -> None:
        """Note what of a request a connection waits for from now on; waiting for it goes on."""
        for kind in (Wait.REQUEST, Wait.HEAD, Wait.BODY):
            if kind is not wait:
                self._since[kind].pop(connection, None)
        if wait is not None:
            self.begin(wait, connection)

    def begin(self, wait: Wait, connection: Closable) -> None:
        """Note that a connection waits from now on; what waits already goes on."""
        waiting = self._since[wait]
        if connection not in waiting:
            loop = asyncio.get_running_loop()
            waiting[connection] = loop.time()
            if self._sweep is None:
                self._sweep = loop.call_later(SWEEP_SECONDS, self._swept)

    def end(self, wait: Wait, connection: Closable) -> None:
        """Note that a connection no longer waits."""
        self._since[wait].pop(connection, None)

    def rest(self, connection: Closable) -> None:
        """Note that nothing is under way on a connection."""
        self._resting[connection] = None

    def wake(self, connection: Closable) -> None:
        """Note that a request is under way."""
        self._resting.pop(connection, None)

    def forget(self, connection: Closable) -> None:
        """Note that a connection is closed."""
        self._resting.pop(connection, None)
        for waiting in self._since.values():
            waiting.pop(connection, None)

    def make_room(self) -> bool:
        """Close the connection that rested longest; False if none rests."""
        if not self._resting:
            return False
        connection, _ = self._resting.popitem(last=False)
        _closed.add(1, {"reason": "full"})
        connection.give_way()
        return True

    def _swept(self) -> None:
        """Close some of those who have waited too long; look again while anybody waits."""
        loop = asyncio.get_running_loop()
        try:
            self._close_some(loop.time())
        finally:
            # Also where one could not be closed: the others must not wait for ever.
            is_anybody_waiting = any(self._since.values())
            self._sweep = (
                loop.call_later(SWEEP_SECONDS, self._swept) if is_anybody_waiting else None
            )

    def _close_some(self, now: float) -> None:
        left = CLOSED_AT_ONCE
        for wait, waiting in self._since.items():
            while waiting and left:
                connection, since = next(iter(waiting.items()))
                if now - since < SECONDS_MAX[wait]:
                    break
                del waiting[connection]
                left -= 1
                _closed.add(1, {"reason": wait.value})
                connection.give_up(wait)


def pause_after(pieces: int) -> float:
    """Return how many seconds to let a client be that has sent so many small pieces."""
    beyond = pieces - FREE_PIECES
    return 0.0 if beyond < 0 else min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2.0 ** min(beyond, 16))
