"""Keys of a terminal: one that is pressed, and the end of the terminal itself."""

import os
import pty
import sys
from collections.abc import Iterator

import pytest

from runtime.cli.pressed_keys import pressed_keys

Terminal = tuple[int, int]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Yield both ends of a terminal, the second of which is standard input; both get closed."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, closefd=True) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield ours, theirs


def test_a_key_is_heard_without_a_line_end_and_silence_is_nothing(terminal: Terminal) -> None:
    ours, _ = terminal
    with pressed_keys() as key_within:
        assert key_within(0) == ""
        os.write(ours, b"q")
        assert key_within(60) == "q"
    os.close(ours)


def test_a_terminal_that_hangs_up_ends_as_ctrl_c_does(terminal: Terminal) -> None:
    ours, _ = terminal
    with pressed_keys() as key_within:
        os.close(ours)
        with pytest.raises(KeyboardInterrupt):
            key_within(60)
