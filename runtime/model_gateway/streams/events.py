"""Server-sent events, cut out of a stream of bytes so that joined again they are that stream."""

import re

from runtime.model_gateway.errors import ProviderFailedError

EVENT_BYTES_MAX = 4 * 1024 * 1024
# A line ends in CR LF, LF or CR. Whether a CR at the very end stands alone, the next byte tells.
_END = rb"(?:\r\n|\n|\r(?=[^\n]))"
_blank_line = re.compile(_END + _END).search
# The longest end of an event that may have come in part.
_END_BYTES_MAX = 4


class EventCutter:
    """Collects bytes and gives each event as it came, with the blank line that ends it."""

    __slots__ = ("_looked_at", "rest")

    def __init__(self) -> None:
        """Begin before the first byte."""
        self.rest = b""
        self._looked_at = 0

    def cut(self, part: bytes) -> list[bytes]:
        """Take the next bytes and return the events that are whole now.

        Raises:
            ProviderFailedError: an event is larger than `EVENT_BYTES_MAX`.
        """
        whole = self.rest + part if self.rest else part
        events: list[bytes] = []
        begin, at = 0, self._looked_at
        while (found := _blank_line(whole, at)) is not None:
            at = found.end()
            events.append(whole[begin:at])
            begin = at
        self.rest = whole[begin:]
        self._looked_at = max(0, len(self.rest) - _END_BYTES_MAX)
        if len(self.rest) > EVENT_BYTES_MAX:
            message = (
                f"The model provider's stream has an event of more than {EVENT_BYTES_MAX} bytes."
            )
            raise ProviderFailedError(message)
        return events
