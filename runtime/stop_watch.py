"""How long a stop may take, watched from a thread: what is in the way cannot be asked to."""

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Literal

from runtime.clock import SystemClock

logger = logging.getLogger(__name__)

# More than an orderly stop takes by its own limits.
STOP_SECONDS_MAX = 25.0
# From the last thing closed to the end of the process; threads of strangers can hold it up.
TAIL_SECONDS_MAX = 10.0
# And so much of that may come after the time for the whole stop.
LATE_SECONDS_MAX = 3.0
_TELL_SECONDS_MAX = 1.0
_EXIT_FAULT = 2

_Said = tuple[Literal["heard", "within", "over"], float]


class StopWatch:
    """Ends the process where it has not ended itself, so long after the first signal."""

    def __init__(
        self,
        *,
        still_there: Callable[[], Sequence[str]],
        seconds_max: float = STOP_SECONDS_MAX,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        """Begin to watch; `still_there` names what could be in the way."""
        self._still_there = still_there
        self._seconds_max = seconds_max
        self._end = end
        self._clock = SystemClock()
        # Of this kind, since a signal can come in the middle of another one's word.
        self._said: queue.SimpleQueue[_Said] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._watch, name="flyball-stop", daemon=True)
        self.thread.start()

    def heard(self, _number: int, _frame: FrameType | None) -> None:
        """Take a signal, as its handler; the first begins the time."""
        self._said.put(("heard", self._seconds_max))

    def end_within(self, seconds: float) -> None:
        """Let the time that is left be another, once there was a signal."""
        self._said.put(("within", seconds))

    def over(self, status: int = _EXIT_FAULT) -> None:
        """Hear that everything is closed, and with which status the process is about to end."""
        self._said.put(("over", status))

    def _watch(self) -> None:
        deadline_ms: int | None = None
        status, is_closed = _EXIT_FAULT, False
        while True:
            left_s = None if deadline_ms is None else self._left_s(deadline_ms)
            try:
                word, figure = self._said.get(timeout=left_s)
            except queue.Empty:
                break
            match word:
                case "heard" if deadline_ms is None:
                    deadline_ms = self._clock.elapsed_ms() + round(figure * 1000)
                case "within" if deadline_ms is not None and not is_closed:
                    deadline_ms = self._clock.elapsed_ms() + round(figure * 1000)
                case "over" if deadline_ms is None:
                    return
                case "over" if deadline_ms is not None and not is_closed:
                    status, is_closed = int(figure), True
                    deadline_ms = min(
                        self._clock.elapsed_ms() + round(TAIL_SECONDS_MAX * 1000),
                        deadline_ms + round(LATE_SECONDS_MAX * 1000),
                    )
        # Apart, as whoever is in the way may hold what is needed to tell of it.
        telling = threading.Thread(target=self._tell, args=[is_closed], daemon=True)
        telling.start()
        telling.join(_TELL_SECONDS_MAX)
        self._end(status)

    def _left_s(self, deadline_ms: int) -> float:
        return max(0, deadline_ms - self._clock.elapsed_ms()) / 1000

    def _tell(self, is_closed: bool) -> None:  # noqa: FBT001 - a thread's one argument
        if is_closed:
            threads = [one.name for one in threading.enumerate() if not one.daemon]
            names = ", ".join(name for name in threads if name != threading.main_thread().name)
            logger.error(
                "everything is closed and the process does not end; ended without: %s",
                names or place_of_main_thread(),
            )
            return
        logger.error(
            "stopping took too long; ended without: %s (at %s); "
            "the next start settles what was held",
            ", ".join(self._still_there()) or "nothing of a plug-in's",
            place_of_main_thread(),
        )


def place_of_main_thread() -> str:
    """Return where the program is, for whoever looks for what is in its way."""
    frames = sys._current_frames()  # noqa: SLF001 - documented, whatever its name says
    frame = frames.get(threading.main_thread().ident or 0)
    if frame is None:
        return "its end"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
