"""Memory held over time, from samples."""

_MIB = 1024 * 1024


class MemoryTime:
    """The integral of a tree's memory: straight lines between samples, the last one to the end.

    A command too short for two samples is charged its peak for all of its time instead, which
    is more than it can have held as far as the peak is known. Between two samples memory can
    rise and fall unseen.
    """

    def __init__(self) -> None:
        """Start before the command does."""
        self._began: float | None = None
        self._ended: float | None = None
        self._samples = 0
        self._at = 0.0
        self._bytes = 0
        self._byte_seconds = 0.0

    def begin(self, at: float) -> None:
        """Note when the command entered its domain; `at` is in seconds of any one clock."""
        self._began = self._at = at

    def note(self, at: float, memory_bytes: int) -> None:
        """Note a sample."""
        if self._samples:
            self._byte_seconds += (at - self._at) * (self._bytes + memory_bytes) / 2
        self._samples += 1
        self._at, self._bytes = at, memory_bytes

    def end(self, at: float) -> None:
        """Note when the tree was ended; only the first time counts."""
        if self._ended is None:
            self._ended = at

    def mib_s(self, *, now: float, peak_bytes: int | None) -> int | None:
        """Return the integral so far, rounded up; None where nothing was seen of the command."""
        if self._began is None or peak_bytes is None:
            return None
        until = now if self._ended is None else self._ended
        if self._samples > 1:
            byte_seconds = self._byte_seconds + max(0.0, until - self._at) * self._bytes
        else:
            byte_seconds = max(0.0, until - self._began) * peak_bytes
        return -int(-byte_seconds // _MIB)
