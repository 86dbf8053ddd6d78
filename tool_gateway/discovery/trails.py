"""What each session did lately, in words: what its list of tools should be about."""

from collections import OrderedDict, deque
from collections.abc import Mapping

from governor.ids import SessionId

SESSIONS_MAX = 512
STEPS_MAX = 8
STEP_CHARS_MAX = 300
_VALUE_CHARS_MAX = 120
_VALUES_MAX = 8


class Trails:
    """The latest requests and calls of each session, in memory and bounded."""

    def __init__(self) -> None:
        """Begin with none."""
        self._steps: OrderedDict[SessionId, deque[str]] = OrderedDict()

    def note(self, session: SessionId, step: str) -> None:
        """Remember one more step; the oldest is forgotten, and the session that rested longest."""
        steps = self._steps.setdefault(session, deque(maxlen=STEPS_MAX))
        self._steps.move_to_end(session)
        steps.append(step[:STEP_CHARS_MAX])
        if len(self._steps) > SESSIONS_MAX:
            self._steps.popitem(last=False)

    def of(self, session: SessionId) -> str:
        """Return the words of the session so far, the latest first; nothing of one unknown."""
        return "\n".join(reversed(self._steps.get(session, ())))


def step_of(tool: str, arguments: Mapping[str, object]) -> str:
    """Return a call in words: the tool's name and its short texts."""
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return " ".join([tool, *(text[:_VALUE_CHARS_MAX] for text in texts[:_VALUES_MAX])])
