"""What is left for a collector when the process ends: it is sent, and holds up nobody."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from runtime.telemetry.deliveries import note_taken
from runtime.telemetry.exporting import flushed

pytestmark = pytest.mark.anyio


class Sender:
    """Sends what is left the way it is told to, and knows in which thread."""

    def __init__(self, send: Callable[[], object]) -> None:
        self.send = send
        self.thread = threading.main_thread()
        self.is_over = threading.Event()

    def shutdown(self) -> None:
        self.thread = threading.current_thread()
        self.send()
        self.is_over.set()


async def test_what_a_collector_takes_is_waited_for() -> None:
    sender: Any = Sender(lambda: None)

    with anyio.fail_after(60):
        await flushed(sender, None)

    assert sender.is_over.is_set()


@pytest.mark.requirement("trace.fails-open")
async def test_a_process_does_not_stay_for_a_collector_that_never_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = threading.Event()
    sender: Any = Sender(answers.wait)

    try:
        with anyio.fail_after(60):
            await flushed(None, sender, quiet_seconds_max=0.05)

        assert sender.thread.daemon
        assert "it is lost" in caplog.text
    finally:
        answers.set()
    assert sender.is_over.wait(60)


async def test_a_collector_that_still_takes_something_is_given_more_time_but_not_for_ever() -> None:
    is_over = threading.Event()

    def send() -> None:
        while not is_over.wait(0.01):
            note_taken()

    sender: Any = Sender(send)
    try:
        with anyio.fail_after(60):
            await flushed(None, sender, seconds_max=0.5, quiet_seconds_max=3_600)
    finally:
        is_over.set()

    assert sender.is_over.wait(60)
