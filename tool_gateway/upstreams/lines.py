"""Cutting what a stdio server writes into lines, none of which may grow without an end."""

from collections.abc import Iterator

from tool_gateway.errors import UpstreamFailedError


class LineCutter:
    """Collects bytes and yields the lines that are whole."""

    def __init__(self, *, bytes_max: int) -> None:
        """Refuse a line that is longer than `bytes_max`."""
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._held = 0

    def cut(self, part: bytes) -> Iterator[bytes]:
        """Take the next bytes and yield the lines that they complete, without their ends.

        Raises:
            UpstreamFailedError: a line is too long.
        """
        *ends, rest = part.split(b"\n")
        for end in ends:
            yield self._whole(end)
        self._hold(rest)

    def _whole(self, end: bytes) -> bytes:
        self._hold(end)
        line = b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        return line

    def _hold(self, part: bytes) -> None:
        self._held += len(part)
        if self._held > self._bytes_max:
            message = f"it wrote a line of more than {self._bytes_max} bytes"
            raise UpstreamFailedError(message)
        if part:
            self._parts.append(part)
