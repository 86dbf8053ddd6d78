"""A stop that takes too long ends all the same, and says what was in its way."""

import signal
import threading

import pytest

from runtime import stop_watch
from runtime.stop_watch import StopWatch

pytestmark = pytest.mark.requirement("stop.bounded")
SECONDS_MAX = 60


class Ends:
    """Takes note of the status that the process would have ended with."""

    def __init__(self) -> None:
        self.statuses: list[int] = []

    def __call__(self, status: int) -> None:
        self.statuses.append(status)


def watching(ends: Ends, *, seconds_max: float) -> StopWatch:
    names = ("plug-in odd (upstream up)",)
    return StopWatch(still_there=lambda: names, seconds_max=seconds_max, end=ends)


def test_a_process_that_was_not_told_to_stop_is_left_alone() -> None:
    ends = Ends()
    watch = watching(ends, seconds_max=0.0)

    watch.end_within(0.0)
    watch.over(0)
    watch.thread.join(SECONDS_MAX)

    assert not watch.thread.is_alive()
    assert ends.statuses == []


def test_a_stop_that_takes_too_long_is_cut_short_with_what_was_in_its_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends = Ends()
    watch = watching(ends, seconds_max=0.0)

    watch.heard(signal.SIGTERM, None)
    watch.thread.join(SECONDS_MAX)

    assert ends.statuses == [2]
    assert "ended without: plug-in odd (upstream up) (at " in caplog.text


def test_what_keeps_a_process_whose_every_part_is_closed_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_watch, "TAIL_SECONDS_MAX", 0.0)
    ends, is_over = Ends(), threading.Event()
    keeping = threading.Thread(target=is_over.wait, name="odd-thread")
    keeping.start()
    watch = watching(ends, seconds_max=3_600.0)

    watch.heard(signal.SIGTERM, None)
    watch.over(0)
    watch.over()
    watch.thread.join(SECONDS_MAX)
    is_over.set()
    keeping.join()

    assert ends.statuses == [0]
    assert "odd-thread" in caplog.text


def test_the_time_of_a_stop_is_counted_from_its_first_signal_and_can_be_shortened() -> None:
    ends = Ends()
    watch = watching(ends, seconds_max=3_600.0)

    watch.heard(signal.SIGTERM, None)
    watch.heard(signal.SIGINT, None)
    watch.end_within(0.0)
    watch.thread.join(SECONDS_MAX)

    assert ends.statuses == [2]
