"""Server-sent events, cut from a stream of bytes."""

from collections.abc import Iterator

from tool_gateway.errors import UpstreamFailedError

_LINE_ENDS = (b"\r\n", b"\r")


class EventCutter:
    """Collects bytes and yields the data of each event of the kind `message` that is whole."""

    def __init__(self, *, bytes_max: int) -> None:
        """Refuse an event that is larger than `bytes_max`."""
        self._bytes_max = bytes_max
        self._rest = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._kind = b"message"

    def cut(self, part: bytes) -> Iterator[bytes]:
        """Take the next bytes and yield the data of the events that they complete.

        Raises:
            UpstreamFailedError: an event is too large.
        """
        whole = self._rest + part
        # A line may end in CR LF, whose halves can come apart: a CR at the end waits.
        held = b"\r" if whole.endswith(b"\r") else b""
        text = whole[: len(whole) - len(held)]
        for end in _LINE_ENDS:
            text = text.replace(end, b"\n")
        *lines, rest = text.split(b"\n")
        self._rest = rest + held
        for line in lines:
            if line:
                self._field(line)
            elif (event := self._ended()) is not None:
                yield event
            if self._data_bytes > self._bytes_max:
                break
        if self._data_bytes + len(self._rest) > self._bytes_max:
            raise UpstreamFailedError(f"an event is larger than {self._bytes_max} bytes")

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_bytes += len(value)
        elif name == b"event":
            self._kind = value

    def _ended(self) -> bytes | None:
        data, kind = self._data, self._kind
        self._data, self._data_bytes, self._kind = [], 0, b"message"
        return b"\n".join(data) if data and kind in {b"message", b""} else None
