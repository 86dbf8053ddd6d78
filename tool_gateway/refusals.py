"""What memory was refused to a session, so that a refusal holds for its later calls."""

from collections import OrderedDict

from governor.call import ToolCall

# As many refusals as a process remembers; the oldest gives way.
REFUSALS_MAX = 10_000


class Refusals:
    """The limits at which somebody said no, by session and tool.

    Sub-sessions count as the session that they were carved out of: none of them is a way around.
    Each process remembers its own until it ends.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._bytes: OrderedDict[tuple[str, str], int] = OrderedDict()

    def note(self, call: ToolCall, limit_bytes: int) -> None:
        """Note that a call was refused more memory than that."""
        key = _key(call)
        self._bytes[key] = min(limit_bytes, self._bytes.pop(key, limit_bytes))
        if len(self._bytes) > REFUSALS_MAX:
            self._bytes.popitem(last=False)

    def forget(self, call: ToolCall) -> None:
        """Forget what was refused, since somebody has given more."""
        self._bytes.pop(_key(call), None)

    def of(self, call: ToolCall) -> int | None:
        """Return beyond which limit a call's like was refused, None where it never was."""
        return self._bytes.get(_key(call))


def _key(call: ToolCall) -> tuple[str, str]:
    return call.chain.sessions[0], call.tool
