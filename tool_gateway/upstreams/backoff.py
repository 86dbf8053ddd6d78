"""How long to wait before an upstream is started again."""

import random
from collections.abc import Callable


class Backoff:
    """Pauses that double up to a bound, and begin anew after a life that was no crash loop."""

    def __init__(
        self,
        *,
        first_s: float,
        most_s: float,
        steady_s: float,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Take the bounds; who lived for `steady_s` is started again without a pause.

        `jitter` returns a number from 0 to 1, by which up to half of a pause is left out: what
        fell together does not rise together.
        """
        self._first_s = first_s
        self._most_s = most_s
        self._steady_s = steady_s
        self._jitter = jitter
        self._pause_s = 0.0

    def reset(self) -> None:
        """Begin anew."""
        self._pause_s = 0.0

    def after(self, *, lived_s: float | None) -> float:
        """Return the seconds to wait after a life of `lived_s`, None if it never came to be."""
        if lived_s is not None and lived_s > self._steady_s:
            self._pause_s = 0.0
        else:
            self._pause_s = min(max(self._pause_s * 2, self._first_s), self._most_s)
        return self._pause_s * (1 - self._jitter() / 2)
