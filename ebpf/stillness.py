"""Which sessions stand still as a whole, and the time limits that stand still with them."""

from ebpf.pausing import Pause


class Stillness:
    """Keeps the time limits of commands in step with the sessions that they are in."""

    def __init__(self) -> None:
        """Start with everything moving."""
        self._pauses: dict[tuple[str, str], list[Pause]] = {}
        self._still: set[tuple[str, str]] = set()

    def joined(self, session: tuple[str, str], pause: Pause) -> Pause:
        """Return the pause, whose time limit stands still with its session until it has `left`."""
        self._pauses.setdefault(session, []).append(pause)
        if session in self._still:
            pause.stand()
        return pause

    def left(self, session: tuple[str, str], pause: Pause) -> None:
        """Let a command's time limit have nothing to do with its session any longer."""
        pauses = self._pauses[session]
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
