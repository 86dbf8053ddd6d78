"""What attempts need of the rest of the house."""

from typing import Protocol


class Elapsing(Protocol):
    """Monotonic time."""

    def elapsed_ms(self) -> int:
        """Return a monotonic reading in milliseconds."""
        ...


class AttemptClock(Elapsing, Protocol):
    """Monotonic time and chance."""

    def below(self, bound: int) -> int:
        """Return a random number from 0 up to `bound`."""
        ...
