"""Calls of tools in a stream of chat, put one after the other for a wire that has them so.

Chat may announce several calls and then write to all of them by turns, and its servers number
them in their own ways, or not at all. A call is told as it comes while it is the first that has
not ended; the others wait until it has.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.model_gateway.strict_json import object_in
from runtime.model_gateway.translation.tools import written_arguments


@dataclass(slots=True)
class _Call:
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    # How many of the arguments' pieces were told; None while the call itself was not.
    told: int | None = None

    def is_whole(self) -> bool:
        """Tell whether the arguments are an object that nothing can be added to."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            object_in("".join(self.arguments).encode())
        except ValueError:
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What is told of a call next: that it begins, more of its arguments, that it ends."""

    call_id: str
    name: str
    begins: bool
    arguments: str
    ends: bool


class StreamCalls:
    """Hears pieces of calls in any order, and tells whole calls in that of their beginnings."""

    def __init__(self) -> None:
        """Begin with no call."""
        self._calls: list[_Call] = []
        self._numbered: dict[int, int] = {}
        # The first call that has not ended.
        self._at = 0

    def hear(self, piece: Mapping[str, Any]) -> bool:
        """Take a piece of a call; False: it belongs to one that was told as ended."""
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        call_id, name = _text(piece.get("id")), _text(function.get("name"))
        at = self._place(piece.get("index"), call_id, name)
        call = self._calls[at]
        call.call_id, call.name = call.call_id or call_id, call.name or name
        arguments = function.get("arguments")
        more = written_arguments(arguments) if isinstance(arguments, dict) else _text(arguments)
        if at < self._at:
            return not more.strip()
        if more:
            call.arguments.append(more)
        return True

    def told(self, *, is_end: bool) -> Iterator[Telling]:
        """Yield what can be told now; at the end everything that is left."""
        while self._at < len(self._calls):
            call = self._calls[self._at]
            if not call.name and not is_end:
                return
            begins, more = call.told is None, call.arguments[call.told or 0 :]
            call.told = len(call.arguments)
            ends = is_end or (self._at + 1 < len(self._calls) and call.is_whole())
            yield Telling(
                call_id=call.call_id,
                name=call.name,
                begins=begins,
                arguments="".join(more),
                ends=ends,
            )
            if not ends:
                return
            self._at += 1

    def _place(self, number: object, call_id: str, name: str) -> int:
        """Return which call a piece belongs to, after it has begun if it is a new one."""
        at = self._known(number, call_id, name)
        if at is None:
            at = len(self._calls)
            self._calls.append(_Call())
        if isinstance(number, int):
            self._numbered[number] = at
        return at

    def _known(self, number: object, call_id: str, name: str) -> int | None:
        if isinstance(number, int):
            at = self._numbered.get(number)
            if at is None or not (name and call_id):
                return at
            # Some servers give every call the number 0: another id with a name is another call.
            return at if self._calls[at].call_id in ("", call_id) else None
        if call_id:
            known = (at for at, call in enumerate(self._calls) if call.call_id == call_id)
            return next(known, None)
        last = len(self._calls) - 1
        return None if last < 0 or (name and self._calls[last].name) else last


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
