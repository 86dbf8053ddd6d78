"""The connections of one listener that wait for their client, each for as long as it may.

Whoever opens connections and says nothing, or little by little, keeps them no longer than the
bounds, and gives way first when there is no room for others.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from opentelemetry import metrics

SWEEP_SECONDS = 0.5
_closed = metrics.get_meter("flyball.runtime").create_counter(
    "flyball_connections_closed", description="Connections given up by a listener, by why"
)


class Wait(StrEnum):
    """What a connection waits for: to be asked something, for the rest of it, to be read."""

    HEAD = "head"
    BODY = "body"
    READER = "reader"


SECONDS_MAX: Mapping[Wait, float] = {Wait.HEAD: 10.0, Wait.BODY: 30.0, Wait.READER: 60.0}


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
        """Close whoever has waited too long, and look again while anybody waits."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for wait, waiting in self._since.items():
            while waiting:
                connection, since = next(iter(waiting.items()))
                if now - since < SECONDS_MAX[wait]:
                    break
                del waiting[connection]
                _closed.add(1, {"reason": wait.value})
                connection.give_up(wait)
        is_anybody_waiting = any(self._since.values())
        self._sweep = loop.call_later(SWEEP_SECONDS, self._swept) if is_anybody_waiting else None
