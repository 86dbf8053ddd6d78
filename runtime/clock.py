"""The one clock, and the one source of fresh ids."""

import secrets
import time


class SystemClock:
    """Wall time, monotonic time and unique names."""

    def now_ms(self) -> int:
        """Return the epoch time in milliseconds."""
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        """Return a monotonic reading in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def elapsed_ns(self) -> int:
        """Return a monotonic reading in nanoseconds, for what takes less than a millisecond."""
        return time.monotonic_ns()

    def fresh(self, prefix: str) -> str:
        """Return a new unique id: the prefix, then time and 80 random bits, sortable by time."""
        return f"{prefix}_{self.now_ms():012x}{secrets.token_hex(10)}"
