"""Which sessions stand still as a whole, and the time limits that stand still with them."""

from collections.abc import Iterator
from contextlib import contextmanager

from ebpf.pausing import Pause


class Stillness:
    """Keeps the time limits of commands in step with the sessions that they are in."""

    def __init__(self) -> None:
        """Start with everything moving."""
        self._pauses: dict[tuple[str, str], list[Pause]] = {}
        self._still: set[tuple[str, str]] = set()

    @contextmanager
    def kept(self, session: tuple[str, str], pause: Pause) -> Iterator[None]:
        """Let a command's time limit stand still whenever its session does, in this block."""
        pauses = self._pauses.setdefault(session, [])
        pauses.append(pause)
        if session in self._still:
            pause.stand()
        try:
            yield
        finally:
            pauses.remove(pause)
            if session in self._still:
                pause.go_on()
            if not pauses:
                del self._pauses[session]

    def note(self, session: tuple[str, str], *, is_still: bool) -> None:
        """Take note of a session that stands still from now on, or goes on."""
        if is_still == (session in self._still):
            return
        if is_still:
            self._still.add(session)
        else:
            self._still.discard(session)
        for pause in self._pauses.get(session, ()):
            if is_still:
                pause.stand()
            else:
                pause.go_on()
