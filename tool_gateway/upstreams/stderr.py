"""The last lines that a stdio server wrote beside the protocol."""

from collections import deque

from tool_gateway.redaction import redact_text

LINES_MAX = 100
LINE_CHARS_MAX = 500
LAST_WORDS = 3


class StderrRing:
    """The last lines of a server and of those that ran in its place before."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._rest = b""
        self._fresh = 0  # how many lines are of the server that was started last

    def begin(self) -> None:
        """Take what follows as the words of a server that is started now."""
        self.end()
        self._fresh = 0

    def feed(self, part: bytes) -> None:
        """Take the next bytes of the server's standard error."""
        *lines, rest = (self._rest + part).split(b"\n")
        for line in lines:
            self.note(line)
        # A line without an end must not grow without one.
        while len(rest) > LINE_CHARS_MAX:
            self.note(rest[:LINE_CHARS_MAX])
            rest = rest[LINE_CHARS_MAX:]
        self._rest = rest

    def end(self) -> None:
        """Take what has come of the last line as all of it."""
        self.note(self._rest)
        self._rest = b""

    def note(self, line: bytes) -> None:
        """Keep one line, if there is anything in it."""
        if text := line[:LINE_CHARS_MAX].decode(errors="replace").rstrip():
            self._lines.append(text)
            self._fresh = min(self._fresh + 1, LINES_MAX)

    def tail(self) -> str:
        """Return the last words of the present server as one line, without credentials."""
        words = list(self._lines)[-min(LAST_WORDS, self._fresh) :] if self._fresh else []
        return redact_text(" | ".join(words))

    def lines(self) -> tuple[str, ...]:
        """Return all lines, the oldest first, without what looks like a credential."""
        return tuple(redact_text(line) for line in self._lines)
