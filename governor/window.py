"""The span of time over which a budget's use is added up."""

from dataclasses import dataclass

from governor.errors import InvalidBudgetError


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A window that never ends."""

    def start_ms(self, now_ms: int) -> int:
        """Return 0: everything since the beginning counts."""
        return 0

    def resets_at_ms(self, now_ms: int) -> int | None:
        """Return None: what is used up stays used up."""
        return None


@dataclass(frozen=True, slots=True)
class Fixed:
    """Back-to-back windows of one length, aligned to the Unix epoch.

    Raises:
        InvalidBudgetError: `length_ms` is not above zero.
    """

    length_ms: int

    def __post_init__(self) -> None:
        """Refuse a window of no length."""
        if self.length_ms <= 0:
            message = f"window.length_ms: {self.length_ms} is not above 0"
            raise InvalidBudgetError(message)

    def start_ms(self, now_ms: int) -> int:
        """Return when the window that contains `now_ms` began."""
        return now_ms - now_ms % self.length_ms

    def resets_at_ms(self, now_ms: int) -> int | None:
        """Return when the next window begins."""
        return self.start_ms(now_ms) + self.length_ms


Window = Lifetime | Fixed
