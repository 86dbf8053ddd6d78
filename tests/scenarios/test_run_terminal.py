"""An interactive agent under `flyball run`: the terminal is its own, and is left as it was."""

import os
import pty
import re
import select
import signal
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import pytest
from scenarios.launched import PYTHON, command, program, visited, workplace
from scenarios.process import SidecarProcess

SECONDS_MAX = 60

TALK = """
import os, signal, sys
print("tty", os.isatty(0), os.tcgetpgrp(0) == os.getpgrp(), flush=True)
def interrupted(number, frame):
    os.write(1, b"interrupted\\n")  # print may be at work when the signal comes
    if os.get_terminal_size().columns == 99:
        os.write(1, b"size 99\\n")
        os._exit(5)
signal.signal(signal.SIGINT, interrupted)
print("heard", input("say> "), flush=True)
while True:
    signal.pause()
"""
RAW = """
import os, signal, tty
tty.setraw(0)
os.write(1, b"raw\\n")
os.kill(os.getpid(), signal.SIGKILL)
"""


class Terminal:
    """What somebody at a terminal sees and types."""

    def __init__(self, own: int, process: "subprocess.Popen[bytes]") -> None:
        self.own = own
        self.process = process
        self.seen = ""

    def sees(self, pattern: str) -> None:
        """Wait until a pattern is on the screen."""
        end = monotonic() + SECONDS_MAX
        while not re.search(pattern, self.seen):
            assert monotonic() < end, f"{pattern} is not in: {self.seen}"
            ready, _, _ = select.select([self.own], [], [], 0.5)
            with suppress(OSError):
                self.seen += os.read(self.own, 4096).decode() if ready else ""

    def types(self, text: str) -> None:
        os.write(self.own, text.encode())


@contextmanager
def terminal(sidecar: SidecarProcess, *words: str) -> Iterator[Terminal]:
    own, other = pty.openpty()
    place = workplace(sidecar)
    process = subprocess.Popen(
        command(sidecar, *words),
        stdin=other,
        stdout=other,
        stderr=other,
        cwd=place,
        start_new_session=True,
        preexec_fn=lambda: _take_terminal(other),  # noqa: PLW1509 - a test has no threads here
    )
    try:
        yield Terminal(own, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(own)
        os.close(other)


def _take_terminal(terminal: int) -> None:
    import fcntl  # noqa: PLC0415 - in the child, before it becomes the launcher

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


@pytest.mark.requirement("run.terminal")
def test_an_interactive_agent_has_the_terminal_and_hears_what_is_typed(
    shared_sidecar: SidecarProcess,
    tmp_path: Path,
) -> None:
    sidecar = visited(shared_sidecar, tmp_path)
    with terminal(sidecar, "--", PYTHON, program(sidecar, "talk", TALK)) as at:
        at.sees("tty True True")
        at.sees("say> ")
        at.types("hello\n")
        at.sees("heard hello")
        at.types("\x03")
        at.sees("interrupted")
        termios.tcsetwinsize(at.own, (30, 99))
        os.killpg(os.tcgetpgrp(at.own), signal.SIGINT)
        at.sees("size 99")
        status = at.process.wait(SECONDS_MAX)

    assert status == 5


@pytest.mark.requirement("run.terminal")
def test_an_agent_that_is_killed_in_raw_mode_leaves_the_terminal_as_it_was(
    shared_sidecar: SidecarProcess,
    tmp_path: Path,
) -> None:
    sidecar = visited(shared_sidecar, tmp_path)
    with terminal(sidecar, "--", PYTHON, program(sidecar, "raw", RAW)) as at:
        before = termios.tcgetattr(at.own)
        at.sees("raw")
        status = at.process.wait(SECONDS_MAX)
        after = termios.tcgetattr(at.own)

    assert status == 128 + signal.SIGKILL
    assert after == before
    assert after[3] & termios.ECHO
