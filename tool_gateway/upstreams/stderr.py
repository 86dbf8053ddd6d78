"""The last lines that a stdio server wrote to its standard error."""

import os
import threading
from collections import deque
from types import TracebackType
from typing import Self, TextIO

from tool_gateway.redaction import redact_text

LINES_MAX = 100
LINE_CHARS_MAX = 500


class StderrRing:
    """A pipe for a server's standard error whose last lines stay readable.

    A thread of its own drains the pipe, so that a talkative server never blocks; it ends
    when the last writer has closed.
    """

    def __init__(self, name: str) -> None:
        """Open the pipe; `name` names the thread."""
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        reading, writing = os.pipe()
        self.writer: TextIO = os.fdopen(writing, "w", encoding="utf-8")
        self._thread = threading.Thread(
            target=self._drain, args=(reading,), name=f"stderr-{name}", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.close()

    def tail(self, lines: int = 3) -> str:
        """Return the last lines, as one line of text without what looks like a credential."""
        return redact_text(" | ".join(list(self._lines)[-lines:]))

    def _drain(self, reading: int) -> None:
        with os.fdopen(reading, "r", encoding="utf-8", errors="replace") as stream:
            # A line without an end must not grow without one.
            while line := stream.readline(LINE_CHARS_MAX):
                if text := line.rstrip():
                    self._lines.append(text)
