"""The loop that relays a stream: each event leaves when its last byte has come."""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from runtime.model_gateway.providers.pool import Received
from runtime.model_gateway.streams.events import EventCutter
from runtime.model_gateway.wires.wire import StreamMeter
from tool_gateway.errors import UpstreamFailedError


class Outlet(Protocol):
    """Where the events of a stream go."""

    @property
    def has_begun(self) -> bool:
        """Tell whether the client was sent anything."""
        ...

    async def relay(self, events: bytes) -> None:
        """Send whole events, after the head of the answer where they are the first."""
        ...


class StreamEnd(Enum):
    """Why nothing more is relayed."""

    FINISHED = auto()
    AT_CEILING = auto()
    TOLD_OF_ERROR = auto()
    MALFORMED = auto()
    BROKE_OFF = auto()
    NOT_READ = auto()


class Patience:
    """How long a provider may be silent: until when its next words are waited for."""

    __slots__ = ("_between", "ends_at", "first")

    def __init__(
        self, now: float, *, whole_ms: int, first_ms: int | None, between_ms: int | None
    ) -> None:
        """Wait from `now` on, a time of the loop's; None waits as long as the whole may take."""
        self.ends_at = now + whole_ms / 1000
        self._between = None if between_ms is None else between_ms / 1000
        self.first = self.ends_at
        if first_ms is not None:
            self.first = min(now + first_ms / 1000, self.ends_at)

    def next(self, now: float) -> float:
        """Return until when to wait for what comes after `now`."""
        return self.ends_at if self._between is None else min(now + self._between, self.ends_at)


async def relayed(
    received: Received,
    meter: StreamMeter,
    outlet: Outlet,
    *,
    patience: Patience,
    is_beyond: Callable[[], bool],
    note_error: Callable[[bytes], None],
) -> StreamEnd:
    """Relay a stream to its end, or to where it must not go on, and return which it was.

    `is_beyond` tells whether more was written than is held; the event that did it is not
    relayed. What ends the stream for its reader then is not sent here. `note_error` hears the
    event that tells of an error; as the first of a stream it is not relayed, because then
    another provider can still answer.

    Raises:
        UpstreamFailedError: the connection broke off, or nothing came in time.
        ProviderFailedError: an event is too large.
    """
    cutter, loop = EventCutter(), asyncio.get_running_loop()
    try:
        async for part in received.parts():
            # What its client takes time for is not the provider's to answer for.
            received.wait_until(patience.ends_at)
            end = await _passed_on(
                cutter.cut(part),
                received,
                meter,
                outlet,
                is_beyond=is_beyond,
                note_error=note_error,
            )
            if end is not None:
                return end
            received.wait_until(patience.next(loop.time()))
    except UpstreamFailedError:
        if not meter.is_whole:
            raise
        # Every choice has ended: all that is missing is what tells so once more.
        return StreamEnd.FINISHED
    # Some servers leave out the last blank line; a piece of an event ends nothing.
    if cutter.rest and meter.hear(cutter.rest) and meter.is_whole and not meter.fault:
        await outlet.relay(cutter.rest)
    return StreamEnd.FINISHED if meter.is_whole and not meter.fault else StreamEnd.BROKE_OFF


async def _passed_on(
    events: list[bytes],
    received: Received,
    meter: StreamMeter,
    outlet: Outlet,
    *,
    is_beyond: Callable[[], bool],
    note_error: Callable[[bytes], None],
) -> StreamEnd | None:
    """Relay the events that came together, as far as they may be; None: the stream goes on."""
    passed: list[bytes] = []
    end = None
    for came in events:
        event = received.without_key(came)
        is_for_client = meter.hear(event)
        if is_beyond():
            end = StreamEnd.AT_CEILING
            break
        if meter.fault:
            note_error(event)
        has_begun = outlet.has_begun or bool(passed)
        if is_for_client and (has_begun or not meter.fault):
            passed.append(event)
        if meter.fault:
            end = StreamEnd.TOLD_OF_ERROR if is_for_client else StreamEnd.MALFORMED
            break
        if meter.is_finished:
            end = StreamEnd.FINISHED
            break
    if passed:
        await outlet.relay(passed[0] if len(passed) == 1 else b"".join(passed))
    return end
