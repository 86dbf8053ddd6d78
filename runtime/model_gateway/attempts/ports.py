"""What attempts need of the rest of the house."""

from typing import Protocol


class AttemptClock(Protocol):
    """Monotonic time and chance."""

    def elapsed_ms(self) -> int:
        """Return a monotonic reading in milliseconds."""
        ...

    def below(self, bound: int) -> int:
        """Return a random number from 0 up to `bound`."""
        ...
