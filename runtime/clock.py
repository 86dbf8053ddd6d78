"""The one clock, and the one source of chance and of fresh ids."""

import secrets
import time

_ID_BYTES = 10
_IDS_AT_ONCE = 128


class SystemClock:
    """Wall time, monotonic time, chance and unique names."""

    def __init__(self) -> None:
        """Start without randomness."""
        self._random: list[str] = []

    def now_ms(self) -> int:
        """Return the epoch time in milliseconds."""
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        """Return a monotonic reading in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def elapsed_ns(self) -> int:
        """Return a monotonic reading in nanoseconds, for what takes less than a millisecond."""
        return time.monotonic_ns()

    def below(self, bound: int) -> int:
        """Return a random number from 0 up to `bound`."""
        return secrets.randbelow(bound)

    def secret(self) -> str:
        """Return text of 256 random bits, as a cookie may hold it."""
        return secrets.token_urlsafe(32)

    def fresh(self, prefix: str) -> str:
        """Return a new unique id: the prefix, then time and 80 random bits, sortable by time."""
        if not self._random:
            # Each visit to the system's source of randomness lets another thread take over.
            block = secrets.token_hex(_ID_BYTES * _IDS_AT_ONCE)
            step = 2 * _ID_BYTES
            self._random.extend(block[at : at + step] for at in range(0, len(block), step))
        return f"{prefix}_{self.now_ms():012x}{self._random.pop()}"
